"""The folder that tests run in: this one, or a copy of it with the examples that they know.

Tests read the example clusters and jobs. A fork has its own in their place, so there the tests run in a copy, whose
examples come from the history: examples.lock names their Git objects. What a fork has renamed in base/, the registry
and the repository's address, has its first name there: teams of the examples may pull from no other registry.

    python3 tests/on_examples.py            prints the folder; tools/test runs there
    python3 tests/on_examples.py --check    fails where examples were changed and the lock was not: CI of upstream
    python3 tests/on_examples.py --write    after a change of an example

Exit codes: 0 done, 1 the examples differ from the lock, 2 bad usage, 3 the history does not hold them.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
LOCK = HOME / "tests/examples.lock"
COPY = HOME / ".tools/on-examples"
EXAMPLES = ("clusters", "docs/fabrics.md", "docs/matrix.md", "jobs")
"""The examples, and what is written from them."""
RENAMED = {
    "registry.example.com": ("base/team/team.yaml", re.compile(r"^  images: \[([^\s,\]]+?)/?[,\]]", re.MULTILINE)),
    "https://git.example.com/trainyard/trainyard.git": (
        "base/gitops/repository/config-map.yaml",
        re.compile(r"^  url: (\S+)$", re.MULTILINE),
    ),
}
"""Names in base/ that a fork replaces (docs/adopt.md), and where it says its own."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HEAD = "# Git objects of the examples that tests run on; `python3 tests/on_examples.py --write` writes them.\n"


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    found = _objects()
    if arguments == ["--write"]:
        LOCK.write_text(_HEAD + "".join(f"{name} {path}\n" for path, name in sorted(found.items())), encoding="utf-8")
        return 0
    lines = LOCK.read_text(encoding="utf-8").splitlines()[1:]
    locked = {path: name for name, path in map(str.split, lines)}
    own = _own_names()
    if found == locked and (not own or arguments):
        print(HOME)
        return 0
    if arguments == ["--check"]:
        print("the examples differ from tests/examples.lock: run python3 tests/on_examples.py --write", file=sys.stderr)
        return 1
    lost = [name for name in locked.values() if _git("cat-file", "-e", name, check=False).returncode]
    if lost:
        print(
            "tests run on the example clusters and jobs, which this repository has replaced, and its history does not"
            f" hold {', '.join(lost)}: `git fetch --unshallow`, or fetch the repository that was forked",
            file=sys.stderr,
        )
        return 3
    changed = ", ".join((*(EXAMPLES if found != locked else ()), *own.values()))
    print(f"{changed}: not of the examples that tests know, which run on those, in {COPY}", file=sys.stderr)
    _copy(locked)
    _rename(own)
    _commit()
    print(COPY)
    return 0


def _objects() -> dict[str, str]:
    """The Git objects of what lies here at the paths of the examples. None is written into the repository."""
    known = HOME / _git("rev-parse", "--git-path", "objects").stdout.decode().strip()
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "GIT_INDEX_FILE": f"{folder}/index",
            "GIT_OBJECT_DIRECTORY": f"{folder}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(known),
        }
        (Path(folder) / "objects").mkdir()
        there = [path for path in EXAMPLES if (HOME / path).exists()]
        if there:
            _git("add", "--all", "--", *there, env=own)
        tree = _git("write-tree", env=own).stdout.decode().strip()
        lines = _git("ls-tree", "-z", tree, *EXAMPLES, env=own).stdout.decode().split("\0")[:-1]
    return {path: head.split()[2] for head, path in (line.split("\t") for line in lines)}


def _copy(locked: Mapping[str, str]) -> None:
    """All files of this folder but the examples, and the examples of the lock."""
    shutil.rmtree(COPY, ignore_errors=True)
    _git("clone", "--quiet", "--no-checkout", str(HOME), str(COPY))
    files = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout.decode().split("\0")[:-1]
    for file in files:
        if not any(file == path or file.startswith(f"{path}/") for path in EXAMPLES) and os.path.lexists(HOME / file):
            (COPY / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(HOME / file, COPY / file, follow_symlinks=False)
    for path, name in locked.items():
        if _git("cat-file", "-t", name).stdout == b"blob\n":
            (COPY / path).write_bytes(_git("cat-file", "blob", name).stdout)
        else:
            with tarfile.open(fileobj=io.BytesIO(_git("archive", name).stdout)) as tree:
                tree.extractall(COPY / path, filter="data")
    (COPY / ".tools").symlink_to(HOME / ".tools")
    (COPY / ".git/info/exclude").write_text("/.tools\n", encoding="utf-8")


def _own_names() -> dict[str, str]:
    """The names of this repository in the place of those of the examples, by the latter."""
    found = {}
    for name, (file, pattern) in RENAMED.items():
        said = pattern.search((HOME / file).read_text(encoding="utf-8")) if (HOME / file).is_file() else None
        if said and said[1] != name:
            found[name] = said[1]
    return found


def _rename(own: Mapping[str, str]) -> None:
    """Put the names of the examples back into base/ of the copy: in lines that stood there once, but for a digest.

    The history decides, since a fork's registry may be one that a base names for another reason.
    """
    for name, here in own.items():
        known = _lines_with(name)
        for file in (COPY / "base").rglob("*.yaml"):
            path, lines = file.relative_to(COPY).as_posix(), file.read_text(encoding="utf-8").split("\n")
            new = [known.get((path, _undated(line.replace(here, name))), line) for line in lines]
            if new != lines:
                file.write_text("\n".join(new), encoding="utf-8")


def _lines_with(name: str) -> dict[tuple[str, str], str]:
    """Lines of base/ that ever held a name, the newest of each, by file and by the line without its digest."""
    plain = ("-c", "log.showRoot=true", "-c", "color.ui=false", "-c", "core.quotePath=false")
    shape = ("--format=", "--patch", "--unified=0", "--no-renames", "--no-ext-diff", "--no-textconv", "--dst-prefix=b/")
    pattern = name.replace(".", r"\.")
    log = _git(*plain, "log", *shape, f"-G{pattern}", "--", "base").stdout.decode(errors="replace")
    found: dict[tuple[str, str], str] = {}
    path = ""
    for line in log.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif line.startswith("+") and name in line:
            found.setdefault((path, _undated(line[1:])), line[1:])
    return found


def _undated(line: str) -> str:
    return _DIGEST.sub("sha256:", line)


def _commit() -> None:
    """Commit all that lies in the copy."""
    who = ("-c", "user.name=tests", "-c", "user.email=tests@localhost", "-c", "core.hooksPath=/dev/null")
    _git("-C", str(COPY), "add", "--all")
    _git("-C", str(COPY), *who, "commit", "--quiet", "--allow-empty", "--no-gpg-sign", "-m", "On the examples")


def _git(
    *arguments: str, env: Mapping[str, str] | None = None, check: bool = True
) -> subprocess.CompletedProcess[bytes]:
    """Git in this folder. What a hook says of its own repository (GIT_DIR ...) is not handed on; GIT_CONFIG_* is."""
    own = {name: value for name, value in os.environ.items() if name[:4] != "GIT_" or name[:10] == "GIT_CONFIG"}
    return subprocess.run(["git", *arguments], cwd=HOME, env=own | dict(env or {}), check=check, capture_output=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
