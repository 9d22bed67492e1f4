"""What other programs may call: `from trainyard.api import lint, plan, render`.

Paths are relative to the current folder. The repository is the checkout that the first path lies in.
"""

import os
from pathlib import Path
from typing import Any

from trainyard.findings.finding import Finding
from trainyard.plan.forecast import Forecast, Overrides, forecast

StrPath = str | os.PathLike[str]


def lint(*paths: StrPath) -> tuple[Finding, ...]:
    """The findings of job folders, kustomizations and manifests; without a path, of every job below jobs/.

    Input that cannot be judged is a finding with `input_error` set. UsageError where there is nothing to judge; Fault
    where a program that is needed is missing or breaks.
    """
    from trainyard.lint.pipeline import lint as judge
    from trainyard.repository.asked import asked
    from trainyard.repository.discover import repository_root

    cwd, words = Path.cwd(), [os.fspath(path) for path in paths]
    root = repository_root(cwd, words)
    return tuple(judge(root, asked(root, cwd, words)).findings)


def render(folder: StrPath) -> list[dict[str, Any]]:
    """The objects of a folder with a kustomization, in kustomize's order. InputError where it does not build."""
    from trainyard.errors import InputError
    from trainyard.kustomize.render import render_one
    from trainyard.repository.discover import repository_root

    name = os.path.realpath(folder)
    root = repository_root(Path.cwd(), [os.fspath(folder)])
    built = render_one(root, os.path.relpath(name, root))
    if built.error:
        raise InputError(built.error, os.fspath(folder))
    return built.objects


def plan(job: StrPath, cluster: str | None = None) -> Forecast:
    """The forecast of a job folder, on the job's cluster or another. InputError where the job cannot be forecast."""
    from trainyard.plan.repository import load
    from trainyard.repository.discover import repository_root

    cwd, name = Path.cwd(), os.fspath(job)
    loaded, run, quota = load(repository_root(cwd, [name]), name, cwd, cluster)
    return forecast(loaded, run, Overrides(), quota)
