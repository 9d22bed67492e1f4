"""What a stranger's pull request may try on the renderer: each trick ends soon, with an error that names its cause."""

import base64
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainyard import limits
from trainyard.kustomize.render import PROGRAM, Rendering, render

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  key: value\n"
PATCH = "  - target: {kind: ConfigMap}\n    patch: |-\n"
SOON = 20.0
"""Seconds in which each trick has to end."""


def repository(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.fixture
def attempt(tmp_path: Path) -> Callable[[dict[str, str]], Rendering]:
    """Render the folder `job` of a repository, with an honest folder after it that must come out right."""

    def render_job(files: dict[str, str]) -> Rendering:
        honest = {"honest/kustomization.yaml": "resources: [settings.yaml]\n", "honest/settings.yaml": CONFIG_MAP}
        root = repository(tmp_path / "repository", honest | files)
        before = set(root.rglob("*"))
        start = time.monotonic()
        rendered, after = render(root, ["job", "honest"], workers=1)
        assert time.monotonic() - start < SOON
        assert after.error == ""
        assert after.objects[0]["data"] == {"key": "value"}
        assert set(root.rglob("*")) == before
        assert str(tmp_path) not in rendered.error
        assert rendered.error.isprintable()
        return rendered

    return render_job


def kustomization(body: str) -> dict[str, str]:
    return {"job/kustomization.yaml": body, "job/settings.yaml": CONFIG_MAP}


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    """A port on this machine, and the connections made to it."""
    connections: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        open_ = threading.Event()
        open_.set()

        def accept() -> None:
            while open_.is_set():
                try:
                    connection, address = server.accept()
                except TimeoutError:
                    continue
                connections.append(str(address))
                connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        yield server.getsockname()[1], connections
        time.sleep(0.2)
        open_.clear()
        thread.join()


REMOTE = [
    "http://127.0.0.1:{port}/settings.yaml",
    "http://127.0.0.1:{port}/team/repository",
    "http://127.0.0.1:{port}/team/repository.git//job?ref=main",
    "https://127.0.0.1:{port}/team/repository?ref=v1&timeout=1",
    "git::http://127.0.0.1:{port}/team/repository.git",
    "ssh://git@127.0.0.1:{port}/team/repository.git",
    "git@127.0.0.1:team/repository.git",
    "github.com/team/repository",
    "git@github.com:team/repository.git",
    "https://dev.azure.com/team/project/_git/repository",
    "file:///etc/repository.git",
]


@pytest.mark.parametrize("address", REMOTE)
def test_no_remote_base(
    address: str, listener: tuple[int, list[str]], attempt: Callable[[dict[str, str]], Rendering]
) -> None:
    port, connections = listener
    address = address.format(port=port)

    rendering = attempt(kustomization(f"resources: ['{address}']\n"))

    assert rendering.error == f"{address} is remote: all that a job is made of must lie in this repository"
    assert (rendering.error_file, rendering.error_text) == ("job/kustomization.yaml", address)
    assert connections == []


@pytest.mark.parametrize(
    "body",
    [
        "resources: [settings.yaml]\npatches: [{{path: '{address}'}}]\n",
        "resources: [settings.yaml]\nopenapi: {{path: '{address}'}}\n",
        "resources: [settings.yaml]\ncrds: ['{address}']\n",
        "resources: [settings.yaml]\ntransformers: ['{address}']\n",
        "resources: [settings.yaml]\nconfigurations: ['{address}']\n",
        "resources: [settings.yaml]\nreplacements: [{{path: '{address}'}}]\n",
        "configMapGenerator: [{{name: fetched, files: ['{address}']}}]\n",
        "secretGenerator: [{{name: fetched, envs: ['{address}']}}]\n",
    ],
    ids=lambda body: body.split(":")[-3].split()[-1] if "resources" in body else body.split(":")[0],
)
def test_no_remote_file_in_any_field(
    body: str, listener: tuple[int, list[str]], attempt: Callable[[dict[str, str]], Rendering]
) -> None:
    port, connections = listener
    address = f"http://127.0.0.1:{port}/settings.yaml"

    rendering = attempt(kustomization(body.format(address=address)))

    assert rendering.error == f"{address} is remote: all that a job is made of must lie in this repository"
    assert connections == []


def test_no_git_although_it_is_on_the_path(tmp_path: Path) -> None:
    repository(tmp_path, {"job/kustomization.yaml": "resources: ['https://127.0.0.1:1/team/repository']\n"})
    witness = tmp_path / "git-was-started"
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(f"#!/bin/sh\ntouch {witness}\n")
    git.chmod(0o755)
    (tmp_path / "tmp").mkdir()
    environment = {"PATH": f"{git.parent}:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "tmp")}

    subprocess.run([PROGRAM, "-root", tmp_path], input=b"job\n", env=environment, check=True, capture_output=True)

    assert not witness.exists()
    assert list((tmp_path / "tmp").iterdir()) == []


FUNCTION = """
apiVersion: example.org/v1
kind: Stranger
metadata:
  name: stranger
  annotations:
    config.kubernetes.io/function: |
      {function}
"""


@pytest.mark.parametrize("function", ["exec: {path: ./touch.sh}", "container: {image: registry.example.org/any}"])
@pytest.mark.parametrize("field", ["generators", "transformers", "validators"])
def test_no_function(function: str, field: str, attempt: Callable[[dict[str, str]], Rendering], tmp_path: Path) -> None:
    witness = tmp_path / "was-started"
    files = kustomization(f"resources: [settings.yaml]\n{field}: [function.yaml]\n")
    files["job/function.yaml"] = FUNCTION.format(function=function)
    files["job/touch.sh"] = f"#!/bin/sh\ntouch {witness}\n"

    rendering = attempt(files)

    assert "plugin Stranger is not allowed" in rendering.error
    assert not witness.exists()


@pytest.mark.parametrize(
    "body",
    [
        "helmCharts: [{name: chart, repo: 'https://charts.example.org', version: 1.0.0}]\n",
        "helmChartInflationGenerator: [{chartName: chart}]\n",
        "generators: [chart.yaml]\n",
    ],
)
def test_no_helm(body: str, attempt: Callable[[dict[str, str]], Rendering]) -> None:
    files = kustomization(body)
    files["job/chart.yaml"] = (
        "apiVersion: builtin\nkind: HelmChartInflationGenerator\nmetadata: {name: chart}\nname: chart\n"
    )

    assert attempt(files).error == "helm charts are not allowed: commit what the chart renders to"


@pytest.mark.parametrize("resource", ["../../outside", "../../outside/settings.yaml", "/etc/passwd", "/etc"])
def test_no_path_out_of_the_repository(
    resource: str, attempt: Callable[[dict[str, str]], Rendering], tmp_path: Path
) -> None:
    repository(tmp_path, {"outside/settings.yaml": CONFIG_MAP, "outside/kustomization.yaml": "namePrefix: a-\n"})

    rendering = attempt(kustomization(f"resources: [{resource}]\n"))

    assert rendering.error == f"{resource} lies outside the repository"


@pytest.mark.parametrize("target", ["/etc", "../../outside", "other/../../../outside"])
@pytest.mark.parametrize("field", ["resources", "components", "transformers"])
def test_no_link_out_of_the_repository(
    target: str, field: str, attempt: Callable[[dict[str, str]], Rendering], tmp_path: Path
) -> None:
    repository(tmp_path, {"outside/kustomization.yaml": "namePrefix: a-\n", "repository/job/other/file": ""})
    (tmp_path / "repository" / "job" / "link").symlink_to(target)

    rendering = attempt(kustomization(f"{field}: [link]\n"))

    assert rendering.error.endswith("lies outside the repository")
    assert rendering.objects == []


def test_no_link_to_a_secret_file(attempt: Callable[[dict[str, str]], Rendering], tmp_path: Path) -> None:
    repository(tmp_path, {"secret": "token", "repository/job/other": ""})
    (tmp_path / "repository" / "job" / "key").symlink_to(tmp_path / "secret")

    rendering = attempt(kustomization("configMapGenerator: [{name: stolen, files: [key]}]\n"))

    assert rendering.error.endswith("lies outside the repository")


def test_links_in_a_circle(attempt: Callable[[dict[str, str]], Rendering], tmp_path: Path) -> None:
    repository(tmp_path, {"repository/job/other": ""})
    (tmp_path / "repository" / "job" / "a").symlink_to("b")
    (tmp_path / "repository" / "job" / "b").symlink_to("a")

    assert "links lead in a circle" in attempt(kustomization("resources: [a]\n")).error


def test_a_pipe_does_not_block(attempt: Callable[[dict[str, str]], Rendering], tmp_path: Path) -> None:
    (tmp_path / "repository" / "job").mkdir(parents=True)
    os.mkfifo(tmp_path / "repository" / "job" / "pipe.yaml")

    rendering = attempt(kustomization("resources: [pipe.yaml]\n"))

    assert (rendering.error, rendering.error_file) == ("job/pipe.yaml is not a regular file", "job/pipe.yaml")


def test_a_pipe_in_place_of_the_kustomization(attempt: Callable[[dict[str, str]], Rendering], tmp_path: Path) -> None:
    (tmp_path / "repository" / "job").mkdir(parents=True)
    os.mkfifo(tmp_path / "repository" / "job" / "kustomization.yaml")

    assert attempt({}).error == "job/kustomization.yaml is not a regular file"


def test_a_file_that_is_too_large(attempt: Callable[[dict[str, str]], Rendering]) -> None:
    files = kustomization("configMapGenerator: [{name: large, files: [data.bin]}]\n")
    files["job/data.bin"] = "x" * (limits.FILE_BYTES + 1)

    rendering = attempt(files)

    assert rendering.error == f"job/data.bin is larger than {limits.FILE_BYTES} bytes"
    assert rendering.error_file == "job/data.bin"


def bomb(levels: int = 12) -> str:
    """A list of lists of lists, ten of each, that is a few lines long."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


def test_aliases_that_expand_without_end(attempt: Callable[[dict[str, str]], Rendering]) -> None:
    files = kustomization("resources: [bomb.yaml]\n")
    files["job/bomb.yaml"] = CONFIG_MAP + bomb()

    assert attempt(files).error == f"job/bomb.yaml has more than {limits.NODES} nodes when its aliases are expanded"


def test_an_alias_of_itself(attempt: Callable[[dict[str, str]], Rendering]) -> None:
    files = kustomization("resources: [bomb.yaml]\n")
    files["job/bomb.yaml"] = CONFIG_MAP + "loop: &loop [*loop]\n"

    assert attempt(files).error == f"job/bomb.yaml has more than {limits.NODES} nodes when its aliases are expanded"


def test_aliases_in_a_patch_in_a_string(
    attempt: Callable[[dict[str, str]], Rendering], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RENDER_BYTES", 400 << 20)
    patch = "\n".join(f"      {line}" for line in (CONFIG_MAP + bomb()).splitlines())

    rendering = attempt(kustomization(f"resources: [settings.yaml]\npatches:\n{PATCH}{patch}\n"))

    assert rendering.error == "needs more than 400 MiB of memory"


def test_an_alias_of_itself_in_a_patch_in_a_string(attempt: Callable[[dict[str, str]], Rendering]) -> None:
    patch = "\n".join(f"      {line}" for line in (CONFIG_MAP + "loop: &loop [*loop]").splitlines())

    rendering = attempt(kustomization(f"resources: [settings.yaml]\npatches:\n{PATCH}{patch}\n"))

    assert rendering.error != ""


def test_more_output_than_one_job_can_need(
    attempt: Callable[[dict[str, str]], Rendering], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RENDERED_BYTES", 1 << 20)
    files = kustomization("resources: [large.yaml]\n")
    aliases = "".join(f"  k{number}: *text\n" for number in range(20))
    files["job/large.yaml"] = f"{CONFIG_MAP}  text: &text {'x' * 100_000}\n{aliases}"

    assert attempt(files).error == f"renders to more than {1 << 20} bytes"


def test_nesting_without_end(attempt: Callable[[dict[str, str]], Rendering]) -> None:
    files = kustomization("resources: [deep.yaml]\n")
    files["job/deep.yaml"] = f"{CONFIG_MAP}deep: {'[' * 5000}{']' * 5000}\n"

    assert attempt(files).error == "ConfigMap/settings nests deeper than 64 levels"


def test_kustomizations_that_include_one_another(attempt: Callable[[dict[str, str]], Rendering]) -> None:
    files = kustomization("resources: [../base]\n") | {"base/kustomization.yaml": "resources: [../job]\n"}

    rendering = attempt(files)

    assert rendering.error == "../job leads back to job, which is being built already"
    assert (rendering.error_file, rendering.error_text) == ("base/kustomization.yaml", "../job")


def test_kustomizations_that_double_at_each_level(attempt: Callable[[dict[str, str]], Rendering]) -> None:
    files = {"job/kustomization.yaml": "resources: [../n0a, ../n0b]\n"}
    for level in range(30):
        for half in "ab":
            below = f"[../n{level + 1}a, ../n{level + 1}b]" if level < 29 else "[settings.yaml]"
            files[f"n{level}{half}/kustomization.yaml"] = f"namePrefix: {half}\nresources: {below}\n"
            files[f"n{level}{half}/settings.yaml"] = CONFIG_MAP

    assert attempt(files).error == f"pulls in more than {limits.KUSTOMIZATIONS} kustomizations"


def test_control_characters_do_not_reach_the_message(attempt: Callable[[dict[str, str]], Rendering]) -> None:
    name = base64.b64encode(b"\x1b[31m").decode()
    rendering = attempt(kustomization(f'resources: ["\\e[31m\\n::error::{name}\\u2028\\x9b.yaml"]\n'))

    assert rendering.error.isprintable()
    assert "\x1b" not in rendering.error_text
