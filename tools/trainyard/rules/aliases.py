"""Ids that rules had before, so that suppressions, links and habits lead to the rules as they are called now."""

ALIASES = {
    "NCL001": "ENV001",
    "NCL002": "ENV002",
    "NCL005": "ENV003",
    "NCL006": "ENV004",
    "NCL009": "ENV005",
    "NCL013": "ENV006",
    "NCL014": "ENV007",
    "NCL015": "ENV008",
    "NCL017": "ENV009",
    "NCL018": "ENV010",
    "NCL020": "ENV011",
    "NCL021": "ENV012",
    "NCL023": "ENV013",
    "NCL024": "ENV014",
    "NCL032": "ENV015",
    "NCL051": "ENV016",
    "NCL052": "ENV017",
    "NCL053": "ENV018",
    "NCL054": "ENV019",
    "NCL055": "ENV020",
    "NCL056": "ENV021",
    "NCL057": "ENV022",
    "NCL058": "ENV023",
    "NCL059": "ENV024",
    "NCL060": "ENV025",
    "NCL061": "ENV026",
    "NCL062": "ENV027",
    "NCL063": "ENV028",
    "NCL064": "ENV029",
    "NCL066": "ENV030",
    "NCL073": "ENV031",
    "NCL076": "ENV032",
}
"""A former id to the present one. A former id is never given to another rule."""


def present(id: str) -> str:
    """The id by which a rule is called now: another one where this one is an alias."""
    return ALIASES.get(id, id)


def former(id: str) -> tuple[str, ...]:
    """The ids that a rule had before, sorted."""
    return tuple(sorted(alias for alias, now in ALIASES.items() if now == id))
