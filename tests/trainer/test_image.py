"""The image holds what the bases ask of it, and nothing that is not pinned."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

HOME = Path(__file__).resolve().parents[2]
DOCKERFILE = (HOME / "trainer/image/Dockerfile").read_text()
STAGES = DOCKERFILE.split("\nFROM ")
POD = yaml.safe_load((HOME / "base/run/pod-template.yaml").read_text())["template"]["spec"]
IMAGES = ("trainer", "ray", "tensorflow")
"""What EXTRA may be: each is a lock in requirements/."""


def locked(extra: str) -> dict[str, str]:
    """Versions by package."""
    return dict(
        re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", (HOME / f"requirements/{extra}.txt").read_text(), re.MULTILINE)
    )


def test_base_image_is_pinned_by_digest() -> None:
    named = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)

    assert len(named) == 1
    assert re.fullmatch(r"docker\.io/library/python:3\.11-slim-bookworm@sha256:[0-9a-f]{64}", named[0])
    assert all(stage.startswith("${PYTHON_IMAGE}") for stage in STAGES[1:])


@pytest.mark.parametrize("extra", [*IMAGES, "uv"])
def test_everything_from_a_registry_of_packages_has_its_hash(extra: str) -> None:
    lock = (HOME / f"requirements/{extra}.txt").read_text()
    packages = re.split(r"\n(?=[a-z0-9])", lock[lock.index("\n", lock.index("tools/lock")) + 1 :])

    assert all("--hash=sha256:" in package for package in packages)
    installs = [line for line in DOCKERFILE.replace("\\\n", " ").splitlines() if re.search(r"\bpip install\b", line)]
    assert len(installs) == 2
    assert all("--require-hashes" in line for line in installs)


@pytest.mark.parametrize("extra", IMAGES)
def test_image_holds_what_its_program_imports(extra: str) -> None:
    entry = {"trainer": "__main__", "ray": "ray", "tensorflow": "tensorflow"}[extra]
    names = {
        "yaml": "pyyaml",
        "PIL": "pillow",
        "prometheus_client": "prometheus-client",
    }

    needed = {names.get(name, name) for name in imports_of(entry)}

    assert needed <= locked(extra).keys()


def imports_of(entry: str) -> set[str]:
    """What a module of the trainer and those that it imports take from elsewhere."""
    found: set[str] = set()
    waiting, seen = [entry], set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        for node in ast.walk(ast.parse((HOME / f"trainer/{module}.py").read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module == "trainer":
                names = [f"trainer.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            waiting += [name.removeprefix("trainer.") for name in names if name.startswith("trainer.")]
            found |= {name.partition(".")[0] for name in names if not name.startswith("trainer")}
    return found - set(sys.stdlib_module_names)


@pytest.mark.claim("image-of-tensorflow-has-cuda")
@pytest.mark.parametrize("extra", IMAGES)
def test_image_computes_on_gpus(extra: str) -> None:
    """Every base asks for GPUs, so a lock of an image holds a framework with CUDA and the NCCL that it calls."""
    packages = locked(extra)

    assert not [name for name in packages if name.endswith("-cpu")]
    assert [name for name in packages if name.startswith("nvidia-nccl-cu")]
    assert [name for name in packages if name.startswith("nvidia-cudnn-cu")]


def test_tests_have_the_tensorflow_of_the_image() -> None:
    assert locked("trainer-test")["tensorflow-cpu"] == locked("tensorflow")["tensorflow"]


def test_user_is_that_of_the_pods() -> None:
    user, group = POD["securityContext"]["runAsUser"], POD["securityContext"]["runAsGroup"]

    assert f"\nUSER {user}:{group}\n" in STAGES[-1]
    assert f"groupadd --gid {group} trainer && useradd --uid {user} --gid {group} --create-home trainer" in STAGES[-1]
    assert STAGES[-1].index("\nUSER ") > STAGES[-1].rindex("\nRUN ")


def test_rays_version_is_that_of_the_rayjob() -> None:
    job = yaml.safe_load((HOME / "base/rayjob/ray-job.yaml").read_text())

    assert locked("ray")["ray"] == job["spec"]["rayClusterSpec"]["rayVersion"]


def test_programs_that_the_bases_start_are_there() -> None:
    """mpirun, sshd and ssh come with MPI=yes, bash with Debian, the others with the packages."""
    installed = re.search(r'"\$\{MPI\}" = yes.*?install ([^\n]*?) *\\\n', STAGES[-1], re.DOTALL)
    commands = (HOME / "base/mpijob/mpi-job.yaml").read_text() + (HOME / "base/mpijob/pod-template.yaml").read_text()

    assert installed is not None
    assert {"openmpi-bin", "openssh-server", "openssh-client"} <= set(installed[1].split())
    assert all(program in commands for program in ("mpirun", "/usr/sbin/sshd", "bash", "ssh -F"))
    for base in ("run", "mpijob", "rayjob", "tfjob"):
        words = yaml.safe_load((HOME / f"base/{base}/training-job.yaml").read_text())["spec"]["command"]
        module = words[words.index("-m") + 1]
        assert words[0] in ("torchrun", "python")
        assert (HOME / f"{module.replace('.', '/')}.py").exists() or (HOME / module / "__main__.py").exists()


def test_what_libraries_open_or_start_at_run_time_is_there() -> None:
    """Triton looks for a C compiler, and NCCL opens libibverbs and its providers; no wheel brings them."""
    installs = r"^RUN apt-get update && apt-get install [^\n]*?recommends ([^\n]*?) *\\$"
    everywhere = re.search(installs, STAGES[-1], re.MULTILINE)

    assert everywhere is not None
    assert {"gcc", "libc6-dev", "libibverbs1", "ibverbs-providers"} <= set(everywhere[1].split())


def test_bases_whose_programs_differ_name_images_of_their_own() -> None:
    """What only one variant of the image installs, no other base may count on."""
    image: dict[str, str] = {}
    for base in ("run", "mpijob", "rayjob", "tfjob"):
        spec = yaml.safe_load((HOME / f"base/{base}/training-job.yaml").read_text())["spec"]
        image[base] = spec.get("image", image.get("run"))

    assert len(set(image.values())) == len(image), image


def test_context_holds_the_trainer_and_the_locks_alone() -> None:
    ignored = (HOME / "trainer/image/Dockerfile.dockerignore").read_text().split()

    assert ignored == ["*", "!requirements/*.txt", "!trainer/**/*.py"]
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    assert " ".join(copied).split() == ["requirements/uv.txt", "requirements/${EXTRA}.txt", "trainer"]


@pytest.mark.slow_build
def test_image_is_built_and_starts() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        pytest.skip("needs a Docker daemon")
    build = [docker, "build", "--quiet", "--file", "trainer/image/Dockerfile", "."]
    image = subprocess.run(build, cwd=HOME, capture_output=True, text=True, check=True).stdout.strip()

    run = [docker, "run", "--rm", "--network=none", image, "python", "-m", "trainer", "--models"]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout

    assert "llama-3-8b" in said
