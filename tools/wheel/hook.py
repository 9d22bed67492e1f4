"""The build hook of the wheel: builds the Go programs for a platform, and lays schemas/ and bases beside them.

hatchling runs it. The environment variable TRAINYARD_PLATFORM names the platform; left out, it is this machine's.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import shtab
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "TRAINYARD_PLATFORM"
INSTALLED = "trainyard/installed"
"""What trainyard.home looks for."""
CARRIED = ("schemas", "base", "overlays", "clusters", "jobs", "mkdocs.yml")
"""What a wheel carries as it is. A fork may have deleted the examples, clusters and jobs."""
PROGRAMS: dict[str, tuple[str, str]] = {"render": ("", "./render"), "validation": ("validation", ".")}
"""What is built of Go: the folder of its module below tools/go, and its package."""
SHELLS = ("bash", "zsh")
LICENCES = ("LICENSE", "LICENCE", "COPYING", "NOTICE")


@dataclass(frozen=True, slots=True)
class Platform:
    """What Go and Python call a platform."""

    system: str
    machine: str
    tag: str


# Programs are linked statically, so that they run with any C library. Go 1.26 runs on macOS 12 and newer.
PLATFORMS = {
    "linux-x86-64": Platform("linux", "amd64", "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"),
    "linux-arm64": Platform("linux", "arm64", "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"),
    "macos-x86-64": Platform("darwin", "amd64", "macosx_12_0_x86_64"),
    "macos-arm64": Platform("darwin", "arm64", "macosx_12_0_arm64"),
}


class RendererHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds one wheel for one platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add what the wheel carries beside Python. SystemExit where Go is missing or fails."""
        if version == "editable":
            return  # a checkout has its own
        home = Path(self.root)
        target = _platform()
        self._made = tempfile.TemporaryDirectory(prefix="trainyard-wheel-")
        made = Path(self._made.name)
        flags = ("-trimpath", "-buildvcs=false", "-ldflags=-s -w")
        for name, (module, package) in PROGRAMS.items():
            _go(home, target, "build", *flags, "-o", made / name, package, module=module)
        modules = _modules(home, target)
        for shell in SHELLS:
            (made / shell).write_text(shtab.complete(_command_line(home), shell))
        (made / "notices.txt").write_text(_notices(modules))
        (made / "renderer.cdx.json").write_text(_bill_of_materials(modules))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{target.tag}"
        build_data["force_include"] = {
            **build_data["force_include"],
            **{str(home / part): f"{INSTALLED}/{part}" for part in CARRIED if (home / part).exists()},
            **{str(made / name): f"{INSTALLED}/bin/{name}" for name in PROGRAMS},
            str(made / "notices.txt"): f"{INSTALLED}/notices.txt",
            **{str(made / shell): f"{INSTALLED}/completion/{shell}" for shell in SHELLS},
        }
        build_data["sbom_files"].append(str(made / "renderer.cdx.json"))

    def finalize(self, version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        """Remove what was built."""
        if version != "editable":
            self._made.cleanup()


def _platform() -> Platform:
    machine = {"x86_64": "x86-64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    name = os.environ.get(VARIABLE) or f"{'macos' if sys.platform == 'darwin' else sys.platform}-{machine}"
    if name not in PLATFORMS:
        raise SystemExit(f"wheel: no wheel is built for {name}; {VARIABLE} may be {', '.join(PLATFORMS)}")
    return PLATFORMS[name]


def _go(home: Path, target: Platform, *words: str | Path, module: str = "") -> str:
    own = home / ".tools" / "go" / "go" / "bin" / "go"
    go = str(own) if own.is_file() else shutil.which("go")
    if go is None:
        raise SystemExit("wheel: go is not on PATH: install Go in the version of tools/go/go.mod, or a built wheel")
    settings = {
        "CGO_ENABLED": "0",
        "GOARCH": target.machine,
        "GOFLAGS": "-mod=readonly",
        "GOOS": target.system,
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    done = subprocess.run(
        [go, *words],
        cwd=home / "tools" / "go" / module,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"wheel: go {words[0]} failed")
    return done.stdout


def _command_line(home: Path) -> argparse.ArgumentParser:
    """The command line of the installed program, as shells complete it."""
    sys.path.insert(0, str(home / "tools"))
    program = import_module("trainyard.__main__")
    lint = import_module(f"trainyard.{program.COMMANDS['lint-jobs']}")
    parsers = {
        short: import_module(f"trainyard.{program.COMMANDS[name]}").parser()
        for short, name in program.SHORT.items()
        if name not in program.OF_A_CHECKOUT
    } | {name: lint.SUBCOMMANDS[name]() for name in program.OF_LINT}
    parsers |= {name: import_module(f"trainyard.{module}").parser() for name, module in program.OF_A_PACKAGE.items()}
    top = argparse.ArgumentParser(prog="trainyard")
    top.add_argument("--version", action="version", version="")
    commands = top.add_subparsers()
    for name, parser in parsers.items():
        commands.add_parser(name, parents=[parser], add_help=False, help=parser.description)
    return top


def _modules(home: Path, target: Platform) -> list[tuple[str, str, Path]]:
    """Path, version and folder of each Go module that the programs are linked of, Go's own library first."""
    root, version = _go(home, target, "env", "GOROOT", "GOVERSION").split()
    told = "{{with .Module}}{{with or .Replace .}}{{if .Version}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}{{end}}"
    lines = sorted(
        {
            line
            for module, package in PROGRAMS.values()
            for line in _go(home, target, "list", "-deps", "-f", told, package, module=module).splitlines()
            if line
        }
    )
    others = [(path, release, Path(folder)) for path, release, folder in (line.split(" ", 2) for line in lines)]
    return [("std", version.removeprefix("go"), Path(root)), *others]


def _notices(modules: list[tuple[str, str, Path]]) -> str:
    """The licence texts that must go with the programs. SystemExit where a module has none."""
    texts = ["bin/render and bin/validation are linked of these Go modules.\n"]
    for path, version, folder in modules:
        files = sorted(file for file in folder.iterdir() if file.is_file() and file.name.upper().startswith(LICENCES))
        if not files:
            raise SystemExit(f"wheel: {path} {version} has no licence in {folder}")
        texts += [
            f"\n{'=' * 80}\n{path} {version}: {file.name}\n\n{file.read_text(errors='replace')}" for file in files
        ]
    return "".join(texts)


def _bill_of_materials(modules: list[tuple[str, str, Path]]) -> str:
    """The modules as CycloneDX: https://cyclonedx.org/docs/1.6/json."""
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:golang/{path}@{version}",
            "name": path,
            "version": version,
            "purl": f"pkg:golang/{path}@{version}",
        }
        for path, version, _ in modules
    ]
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}
    return json.dumps(bill, indent=2) + "\n"
