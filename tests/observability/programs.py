"""The programs of tools/go/observability, which run what Prometheus and the log agent will run."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from tests.observability.catalogue import HOME

FOLDER = HOME / ".tools/promtool"


def promtool(*arguments: str, cwd: str | None = None) -> str:
    """What promtool says; it must agree."""
    done = subprocess.run([FOLDER / "promtool", *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def parsed_queries(expressions: Sequence[str]) -> list[dict[str, Any]]:
    """Of each expression its error or its selectors, from Prometheus' own parser."""
    done = subprocess.run(
        [FOLDER / "parse", "promql"], input=json.dumps(expressions), capture_output=True, text=True, check=True
    )
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def parsed_alloy(text: str) -> list[str]:
    """The top-level blocks of an Alloy configuration; AssertionError where Alloy's parser refuses it."""
    done = subprocess.run([FOLDER / "parse", "alloy"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    blocks: list[str] = json.loads(done.stdout)
    return blocks
