"""The exported policies as files: base/policy/ holds them, and docs/policy.md lists them.

What else follows from schemas/job-folder.yaml is written with them: rights, a project and a part of docs/allowed.md.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

from trainyard.allowed.kinds import project, rights
from trainyard.allowed.statement import FILE, statement
from trainyard.docs.generated import update
from trainyard.docs.pages import first_line, link
from trainyard.home import HOME
from trainyard.policy import POLICIES
from trainyard.policy.definition import definition
from trainyard.policy.model import Policy, objects
from trainyard.rules.index import all_rules

FOLDER = HOME / "base" / "policy"
PAGE = HOME / "docs" / "policy.md"
ALLOWED = HOME / "docs" / "allowed.md"
ROLE = HOME / "base" / "team" / "role-gitops.yaml"
PROJECT = HOME / "base" / "gitops" / "argocd" / "team" / "app-project.yaml"
_HEAD = "# Written by `tools/lint-jobs export-policy` from rule {}; `tools/lint-jobs explain {}` says why.\n"
_DEFINITION = "custom-resource-definition.yaml"
_OF_TEAMS = "# Written by `tools/update-docs` from schemas/trainyard.dev/team_v1alpha1.json: what a team may have.\n"
_BEGIN, _END = "<!-- exported -->\n", "<!-- end -->\n"
_BOUND = "<!-- claim: attacks-are-refused, fields-that-nobody-thought-of -->\n"


class _Dumper(yaml.SafeDumper):
    """Long expressions as blocks, lists that are indented with their key, and everything as often as it is said."""

    def ignore_aliases(self, _: Any) -> bool:
        """Whether a list that stands twice is written twice."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def files() -> dict[str, str]:
    """File name to text: one of a policy and its bindings for each rule, what they read, and a kustomization of all."""
    rules = all_rules()
    found = {_DEFINITION: _OF_TEAMS + _yaml(definition())}
    for policy in POLICIES:
        rule = rules[policy.rule]
        documents = "---\n".join(_yaml(document) for document in objects(policy, rule))
        found[f"{rule.name}.yaml"] = _HEAD.format(rule.id, rule.id) + documents
    lines = "".join(f"- {name}\n" for name in sorted(found))
    head = "# What every cluster refuses at its door, whoever applies it.\n"
    api = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
    return {"kustomization.yaml": f"{head}{api}resources:\n{lines}", **found}


def stream() -> str:
    """All of them as one stream of YAML documents."""
    return "---\n".join(text for name, text in files().items() if name != "kustomization.yaml")


def page(text: str) -> str:
    """The guide with its list of policies brought up to date."""
    rules = all_rules()
    rows = [
        f"| {link(rule.id)} | {first_line(rule)} | {', '.join(kind.name for kind in policy.kinds)} | "
        f"{'refused' if rule.severity.label == 'error' else 'warned of'}<!-- claim: {_claim(policy)} --> |\n"
        for policy in POLICIES
        for rule in (rules[policy.rule],)
    ]
    head = "| rule | what it says | kinds | such an object is |\n|---|---|---|---|\n"
    return _between(text, f"{head}{''.join(rows)}")


def _claim(policy: Policy) -> str:
    """Which tests hold a policy: the attacks where a Team or an account decides, the pages of rules elsewhere."""
    return "attacks-are-refused" if policy.with_team or policy.of_accounts else "policy-says-its-rule"


def main() -> int:
    """Write base/policy/ and the list in docs/policy.md, or with --check say which of them differ."""
    wanted = {FOLDER / name: text for name, text in files().items()} | {PAGE: page(PAGE.read_text())} | allowed()
    return update(wanted, "the rules", FOLDER.glob("*.yaml"))


def allowed() -> dict[Path, str]:
    """What follows from schemas/job-folder.yaml beside the policies."""
    said = statement()
    return {
        ROLE: _behind(ROLE.read_text(), "\nrules:\n", rights(said)),
        PROJECT: _behind(PROJECT.read_text(), "\n  namespaceResourceWhitelist:\n", project(said)),
        ALLOWED: _between(ALLOWED.read_text(), f"```yaml\n{FILE.read_text()}```\n{_BOUND}"),
    }


def _behind(text: str, mark: str, wanted: str) -> str:
    before, mark, _ = text.partition(mark)
    return f"{before}{mark}{wanted}"


def _between(text: str, wanted: str) -> str:
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{wanted}{_END}{after}"


def _yaml(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10**6)


if __name__ == "__main__":
    sys.exit(main())
