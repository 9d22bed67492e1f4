"""docs/fabrics.md: what each fabric sets and why, read from overlays/*/fabric.yaml and the comments in them."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.docs.claims import unbound
from trainyard.docs.generated import update
from trainyard.home import HOME

PAGE = HOME / "docs" / "fabrics.md"

HEAD = """\
# Fabrics

Written by `tools/update-docs` from `overlays/<fabric>/fabric.yaml` and its comments. A fabric is one file of facts; the
wiring copies them into the pods of every job on a cluster that lists it.<!-- claim: each-number-is-wired -->
The interface by which ranks meet is the cluster's (`network.interface` in `clusters/<name>/facts/cluster.yaml`), on any
fabric.<!-- claim: each-number-is-wired --> What the files say of drivers, plugins and NCCL was read and not tried:
such networks were not available.
"""

CLAIMS = {"podSecurity": "fabric-passes-its-namespace"}
"""The claim of what a sheet says of a setting; what it says of others is about hardware, drivers and NCCL."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of a fact sheet."""

    path: str
    """From below `spec`, such as nccl.NCCL_NET."""
    value: str
    why: str


def settings(text: str) -> Iterator[Setting]:
    """The settings of a fact sheet, in its order: keys with a value on their line, each with the comment above it.

    A comment above a map holds for the first setting in it; a setting without one has no reason of its own.
    """
    body = text.partition("\nspec:\n")[2]
    above: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in body.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.lstrip("# "))
            continue
        match = re.fullmatch(r"( *)([^ :][^:]*):(?: (.*))?", line)
        if not match:
            comment = []
            continue
        indent, key, value = len(match[1]), match[2], match[3]
        above = [(depth, name) for depth, name in above if depth < indent]
        above.append((indent, key))
        if value is not None:
            path = ".".join(name for _, name in above)
            yield Setting(path, value.strip("\"'"), " ".join(comment))
            comment = []


def about(text: str) -> str:
    """What a fabric is, from the comment on top of its sheet."""
    return next(line for line in text.splitlines() if line.startswith("# ") and "yaml-language-server" not in line)[2:]


def page() -> str:
    """The whole page."""
    sheets = {file.parent.name: file.read_text() for file in sorted(HOME.glob("overlays/*/fabric.yaml"))}
    on = _clusters()
    parts = [HEAD, "| fabric | what it is | clusters |", "|---|---|---|"]
    for name, text in sheets.items():
        parts.append(f"| [{name}](#{name}) | {_bound('', about(text))} | {', '.join(on.get(name, ['none']))} |")
    for name, text in sheets.items():
        parts += ["", f"## {name}", "", "| sets | to | why |", "|---|---|---|"]
        parts += [
            f"| `{each.path}` | `{each.value}` | {_bound(each.path, each.why)} |"
            for each in settings(text)
            if _is_said(each)
        ]
    return "\n".join(parts) + "\n"


def _bound(path: str, why: str) -> str:
    """What a sheet says, with its claim behind it where it needs one."""
    if not unbound(why, ""):
        return why
    claim = f"claim: {CLAIMS[path]}" if path in CLAIMS else "no claim: of the network, not tried"
    return f"{why}<!-- {claim} -->"


def _is_said(setting: Setting) -> bool:
    """Requests repeat limits, and an empty map sets nothing."""
    return not setting.path.startswith("resources.requests") and setting.value != "{}"


def _clusters() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for file in sorted(HOME.glob("clusters/*/facts/kustomization.yaml")):
        for fabric in re.findall(r"overlays/(\S+)", file.read_text()):
            found.setdefault(fabric, []).append(file.parent.parent.name)
    return found


def main() -> int:
    """Write the page, or with --check say whether it differs."""
    return update({PAGE: page()}, "overlays/")


if __name__ == "__main__":
    sys.exit(main())
