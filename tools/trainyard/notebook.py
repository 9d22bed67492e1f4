"""Kubeflow's TrainerClient, with a pull request in the place of a submission.

    import sys; sys.path.append("/path/to/the/repository/tools")
    from kubeflow.trainer import CustomTrainer
    from trainyard.notebook import PullRequestClient

    client = PullRequestClient("/path/to/the/repository", team="research", cluster="gpu-east")
    client.train(trainer=CustomTrainer(func=train, func_args={"steps": 1000}, num_nodes=4))

`train` writes a job folder on a new branch, with the function's source in it, after the linter has let it pass, and
returns the job's name. It needs the package `kubeflow` and nothing else of the linter's; docs/notebook.md says more.
"""

import json
import re
import subprocess
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from kubeflow.trainer import CustomTrainer, Runtime, RuntimeTrainer, TrainerClient, TrainerType
from kubeflow.trainer.backends.base import RuntimeBackend
from kubeflow.trainer.constants import constants
from kubeflow.trainer.types import types

from trainyard.author.standalone import program

DEFAULT_RUNTIME = "trainjob"
"""What makes the TrainJob that a TrainerClient would have made."""

KNOWN_AS = {"torch-distributed": DEFAULT_RUNTIME}
"""Names of runtimes that come with Kubeflow Trainer, and the bases that stand for them."""

AFTER_THE_MERGE = (
    "runs after its pull request is merged, and Git does not see it: docs/lifecycle.md says how to watch it"
)


class PullRequestClient(TrainerClient):
    """A TrainerClient whose jobs arrive by pull request."""

    def __init__(self, repository: str | Path, *, team: str, cluster: str, base: str = "HEAD", push: str = "") -> None:
        """`base`: the revision that branches start from. `push`: a git remote that each branch is pushed to."""
        self.backend = PullRequestBackend(Path(repository), team, cluster, base, push)


class PullRequestBackend(RuntimeBackend):
    """Writes job folders on branches of a checkout, whose working tree it leaves alone."""

    def __init__(self, repository: Path, team: str, cluster: str, base: str = "HEAD", push: str = "") -> None:
        self.repository = repository.expanduser().resolve()
        if not (self.repository / "tools" / "new-job").is_file():
            raise ValueError(
                f"{self.repository} is not a checkout of a repository of training jobs: it has no tools/new-job"
            )
        self.team, self.cluster, self.base, self.push = team, cluster, base, push

    def list_runtimes(self) -> list[types.Runtime]:
        """The ways to launch a job: folders of base/ that a function can stand in for."""
        listed = json.loads(self._tool("--list-launchers"))
        return [_runtime(name) for name in listed]

    def get_runtime(self, name: str) -> types.Runtime:
        """One of them. ValueError where there is none of that name."""
        there = [runtime.name for runtime in self.list_runtimes()]
        wanted = KNOWN_AS.get(name, name)
        if wanted not in there:
            raise ValueError(f"there is no runtime {name!a}: there are {', '.join(there)}")
        return _runtime(wanted)

    def get_runtime_packages(self, runtime: types.Runtime) -> None:
        """RuntimeError: what is in an image, Git does not say."""
        raise RuntimeError("Git does not say what is in the image of a job")

    def train(
        self,
        runtime: str | types.Runtime | None = None,
        initializer: types.Initializer | None = None,
        trainer: types.CustomTrainer | types.CustomTrainerContainer | types.BuiltinTrainer | None = None,
        options: list[Any] | None = None,
    ) -> str:
        """Write the job on a branch and return its name.

        ValueError where the arguments cannot become a job, or where the linter finds that it would not train.
        """
        if initializer is not None:
            raise ValueError(
                "an initializer downloads while GPUs wait: datasets lie on the cluster's claim, below /data"
            )
        if not isinstance(trainer, CustomTrainer):
            raise ValueError(
                "give a CustomTrainer with a function; for the trainer of the repository run tools/new-job"
            )
        if trainer.packages_to_install:
            raise ValueError(
                "packages_to_install: pods install nothing at start; give an image that has them, by digest"
            )
        code = program(trainer.func, trainer.func_args or {})
        asked: dict[str, Any] = {}
        for option in options or []:
            option(asked, trainer, self)
        named = asked.get("metadata", {}).get("name")
        name = named or _job_name(trainer.func)
        chosen = runtime.name if isinstance(runtime, Runtime) else runtime or DEFAULT_RUNTIME
        request = {
            "name": name,
            "team": self.team,
            "cluster": self.cluster,
            "base": self.base,
            "launcher": KNOWN_AS.get(chosen, chosen),
            "nodes": 1 if trainer.num_nodes is None else trainer.num_nodes,
            "gpus": _gpus(trainer.resources_per_node or {}),
            "image": trainer.image,
            "env": trainer.env,
            "program": code,
        }
        made = json.loads(self._tool("--request", stdin=json.dumps(request)))
        print(f"branch {made['branch']}: {made['folder']}")
        if self.push:
            self._git("push", "--set-upstream", self.push, made["branch"])
        else:
            print(
                f"next: git -C {self.repository} push --set-upstream origin {made['branch']}, and open a pull request"
            )
        return name

    def list_jobs(self, runtime: types.Runtime | None = None) -> list[types.TrainJob]:
        """The team's jobs as `base` has them. Their status is unknown to Git."""
        listed = self._git("ls-tree", "-d", "--name-only", self.base, f"jobs/{self.team}/").split()
        found = (self.get_job(folder.rpartition("/")[2]) for folder in listed)
        return [job for job in found if runtime is None or job.runtime.name == runtime.name]

    def get_job(self, name: str) -> types.TrainJob:
        """A job of `base`, or of the branch of its name. ValueError where there is none."""
        folder = f"jobs/{self.team}/{name}"
        for revision in (self.base, f"refs/heads/{name}"):
            try:
                kustomization = self._git("show", f"{revision}:{folder}/kustomization.yaml")
                job = self._git("show", f"{revision}:{folder}/job.yaml")
                created = self._git(
                    "log", "-1", "--diff-filter=A", "--format=%cI", revision, "--", f"{folder}/job.yaml"
                )
            except ValueError:
                continue
            launcher = re.search(r"^- \.\./\.\./\.\./base/(\S+)", kustomization, re.MULTILINE)
            nodes = re.search(r"^  nodes: (\d+)", job, re.MULTILINE)
            return types.TrainJob(
                name=name,
                runtime=_runtime(launcher[1] if launcher else ""),
                steps=[],
                num_nodes=int(nodes[1]) if nodes else 1,
                creation_timestamp=datetime.fromisoformat(created.strip()),
            )
        raise ValueError(f"no job is called {folder}")

    def get_job_logs(self, name: str, follow: bool = False, step: str = constants.NODE + "-0") -> Iterator[str]:
        """RuntimeError: it is the cluster that has them."""
        raise RuntimeError(f"{name} {AFTER_THE_MERGE}")

    def get_job_events(self, name: str) -> list[types.Event]:
        """RuntimeError: it is the cluster that has them."""
        raise RuntimeError(f"{name} {AFTER_THE_MERGE}")

    def wait_for_job_status(
        self,
        name: str,
        status: set[str] = {constants.TRAINJOB_COMPLETE},  # noqa: B006
        timeout: int = 600,
        polling_interval: int = 2,
        callbacks: list[Callable[[types.TrainJob], None]] | None = None,
    ) -> types.TrainJob:
        """RuntimeError: a pull request waits for people."""
        raise RuntimeError(f"{name} {AFTER_THE_MERGE}")

    def delete_job(self, name: str) -> None:
        """RuntimeError: a job is stopped by a pull request, too."""
        raise RuntimeError(
            f"a job is stopped by a pull request: git rm -r jobs/{self.team}/{name}, then tools/list-jobs"
        )

    def _tool(self, *arguments: str, stdin: str = "") -> str:
        """What tools/new-job prints. ValueError with its words where it refuses, RuntimeError where it breaks."""
        command = [str(self.repository / "tools" / "new-job"), *arguments]
        done = subprocess.run(command, cwd=self.repository, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip().removeprefix("new-job: ")
            raise ValueError(said) if done.returncode == 2 else RuntimeError(said)
        return done.stdout

    def _git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.repository), *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"git {arguments[0]}: {done.stderr.strip()}")
        return done.stdout


def _gpus(resources: dict[str, Any]) -> int | None:
    other = sorted(set(resources) - {"gpu", "nvidia.com/gpu"})
    if other:
        raise ValueError(
            f"resources_per_node: {', '.join(other)} is the cluster's to say: a pod has its node for itself"
        )
    asked = resources.get("gpu", resources.get("nvidia.com/gpu"))
    return None if asked is None else int(asked)


def _job_name(function: Callable[..., Any]) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", function.__name__.lower()).strip("-")
    return f"{name[:40] or 'job'}-{uuid.uuid4().hex[:6]}" if name[:1].isalpha() else f"job-{uuid.uuid4().hex[:6]}"


def _runtime(name: str) -> types.Runtime:
    trainer = RuntimeTrainer(trainer_type=TrainerType.CUSTOM_TRAINER, framework="torch", image="")
    return Runtime(name=name, trainer=trainer, kind=types.RuntimeKind.CLUSTER_TRAINING_RUNTIME)
