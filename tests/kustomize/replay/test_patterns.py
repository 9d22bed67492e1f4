"""Kustomize's expressions and selectors, and that a stranger's expression cannot stall the linter."""

import time

import pytest

from trainyard.kustomize.replay.paths import split
from trainyard.kustomize.replay.patterns import labels_match, part, whole


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("", "anything", True),
        ("web", "web", True),
        ("web", "web2", False),
        ("web.*", "web-1", True),
        ("Fabric|TrainingJob|Cluster", "TrainingJob", True),
        ("Fabric|TrainingJob|Cluster", "TrainingJobs", False),
        ("(a|b)-[0-9]+", "b-12", True),
        ("^web$", "web", True),
        ("a.c", "abc", True),
        (r"a\.c", "abc", False),
        ("(a+)+", "aaa", False),
        ("[", "[", False),
    ],
)
def test_whole(pattern: str, text: str, expected: bool) -> None:
    assert whole(pattern)(text) is expected


def test_part_is_found_anywhere_as_in_kustomize() -> None:
    assert part("trainer")("my-trainer-2")
    assert not part("^trainer$")("my-trainer")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(.*)*x", "a*a*a*a*b", "(?=a)a", "(a|aa)+$", "[a-z]*" * 9])
def test_costly_expressions_are_not_run(pattern: str) -> None:
    start = time.perf_counter()
    assert not whole(pattern)("a" * 200)
    assert not part(pattern)("a" * 200 + "!")
    assert time.perf_counter() - start < 0.1


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app!=web", False),
        ("tier in (front, back)", True),
        ("tier notin (front)", False),
        ("app", True),
        ("!app", False),
        ("!absent", True),
        ("absent", False),
        ("absent!=x", True),
        ("app=web,", True),
        ("=", False),
    ],
)
def test_labels(selector: str, expected: bool) -> None:
    assert labels_match(selector, {"app": "web", "tier": "front"}) is expected


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("spec.replicas", ("spec", "replicas")),
        ("spec.containers.[name=a.b].image", ("spec", "containers", "[name=a.b]", "image")),
        ("spec.containers.[name=a].image", ("spec", "containers", "[name=a]", "image")),
        ("metadata.labels.[a.b/c]", ("metadata", "labels", "a.b/c")),
        ("limits.[nvidia.com/gpu]", ("limits", "nvidia.com/gpu")),
        ("data.a\\.b", ("data", "a.b")),
        ("list.0.*.x", ("list", "0", "*", "x")),
        (".spec.x", ("spec", "x")),
    ],
)
def test_paths(path: str, steps: tuple[str, ...]) -> None:
    assert split(path) == steps
