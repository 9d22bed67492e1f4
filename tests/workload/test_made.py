"""Objects that controllers make, put together from parts that know where they were written."""

from typing import Any

import pytest

from trainyard.objects.objects import Object, Spot
from trainyard.workload.made import made_object, merge, part_of, upsert, written

RUNTIME = Object.of({"kind": "ClusterTrainingRuntime", "metadata": {"name": "torch"}}, 0)
JOB = Object.of({"kind": "TrainJob", "metadata": {"name": "bert", "namespace": "research"}}, 1)

MERGED: list[tuple[str, Any, Any, Any]] = [
    ("maps merge", {"a": 1, "b": {"c": 2}}, {"b": {"d": 3}}, {"a": 1, "b": {"c": 2, "d": 3}}),
    ("null deletes", {"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    ("other lists are replaced", {"tolerations": [1, 2]}, {"tolerations": [3]}, {"tolerations": [3]}),
    (
        "an item of the same key merges where it is",
        {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]},
        {"containers": [{"name": "b", "env": [{"name": "N", "value": "1"}]}]},
        {"containers": [{"name": "a", "image": "x"}, {"name": "b", "env": [{"name": "N", "value": "1"}]}]},
    ),
    (
        "new items come before those that only the base has",
        {"volumes": [{"name": "a"}, {"name": "b"}]},
        {"volumes": [{"name": "n"}]},
        {"volumes": [{"name": "n"}, {"name": "a"}, {"name": "b"}]},
    ),
    (
        "the base's order holds around an item that both have",
        {"volumes": [{"name": "a"}, {"name": "b"}, {"name": "c"}]},
        {"volumes": [{"name": "b"}, {"name": "n"}]},
        {"volumes": [{"name": "a"}, {"name": "b"}, {"name": "n"}, {"name": "c"}]},
    ),
    (
        "mounts go by their path",
        {"volumeMounts": [{"name": "a", "mountPath": "/x"}]},
        {"volumeMounts": [{"name": "b", "mountPath": "/x"}]},
        {"volumeMounts": [{"name": "b", "mountPath": "/x"}]},
    ),
    ("a map takes the place of a list", {"containers": []}, {"containers": {"x": 1}}, {"containers": {"x": 1}}),
]


@pytest.mark.parametrize(("name", "base", "patch", "expected"), MERGED, ids=[case[0] for case in MERGED])
def test_a_patch_is_laid_over_as_the_api_server_does(name: str, base: Any, patch: Any, expected: Any) -> None:
    assert merge(part_of(base, RUNTIME.at("spec")), part_of(patch, JOB.at("spec"))).plain() == expected, name


def test_every_field_leads_back_to_where_it_was_written() -> None:
    base = part_of(
        {"containers": [{"name": "node", "image": "old", "env": [{"name": "A", "value": "1"}]}]}, RUNTIME.at("t")
    )
    patch = part_of({"containers": [{"name": "node", "env": [{"name": "B", "value": "2"}]}]}, JOB.at("p", 0))
    tree = part_of({"kind": "JobSet", "metadata": {"name": "bert"}}, JOB.at())
    tree.value["spec"] = merge(base, patch)
    (container,) = tree.make("spec").items("containers")
    container.value["image"] = part_of("new", JOB.at("spec", "trainer", "image"))
    upsert(container, "env", part_of({"name": "A", "value": "3"}, JOB.at("spec", "trainer", "env", 0)), "name")

    made = made_object(tree, JOB)

    def source(*path: str | int) -> tuple[str, tuple[str | int, ...]]:
        found = written(made.at(*path))
        return found.object.kind, found.path

    assert made.data["spec"]["containers"][0]["env"] == [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]
    assert source("spec", "containers", 0, "name") == ("TrainJob", ("p", 0, "containers", 0, "name"))
    assert source("spec", "containers", 0, "image") == ("TrainJob", ("spec", "trainer", "image"))
    assert source("spec", "containers", 0, "env", 0, "value") == (
        "TrainJob",
        ("p", 0, "containers", 0, "env", 0, "value"),
    )
    assert source("spec", "containers", 0, "env", 1, "value") == ("TrainJob", ("spec", "trainer", "env", 0, "value"))
    assert source("spec", "containers", 0, "resources", "limits") == (
        "ClusterTrainingRuntime",
        ("t", "containers", 0, "resources", "limits"),
    )
    assert source("status") == ("TrainJob", ("status",))


def test_what_is_asked_of_a_field_goes_with_it() -> None:
    made = made_object(part_of({"kind": "JobSet", "spec": {"a": 1}}, JOB.at()), JOB)

    found = written(Spot(made, ("spec", "a"), "here", at_key=True))

    assert found == Spot(JOB, ("spec", "a"), "here", at_key=True)
