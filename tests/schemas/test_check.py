"""Rendered objects in, whole problem lists out."""

from pathlib import Path

import pytest

from tests.schemas.conftest import HERE, Snapshot, as_text, unit_of
from trainyard.errors import Fault
from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.schemas.schema import check

BAD = sorted((HERE / "bad").glob("*.yaml"))
GOOD = sorted((HERE / "good").glob("*.yaml"))


def config_map(name: str, data: object, index: int = 0) -> Object:
    return Object.of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}, index)


@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_each_mistake_is_named(file: Path, snapshot: Snapshot) -> None:
    snapshot(f"{file.stem}.txt", as_text(check([unit_of(file)])))


def test_good_objects_have_no_problems() -> None:
    assert as_text(check([unit_of(file) for file in GOOD])) == "\n"


def test_units_at_once_say_what_they_say_alone() -> None:
    units = [unit_of(file) for file in [*BAD, *GOOD, *BAD]]
    alone = {unit.name: check([unit]) for unit in units}
    expected = [
        (index, problem.object, problem.path, problem.message)
        for index, unit in enumerate(units)
        for problem in alone[unit.name]
    ]
    assert [(p.unit_index, p.object, p.path, p.message) for p in check(units)] == expected


def test_objects_of_one_name_are_told_apart() -> None:
    """Rendered folders repeat names: each variant is judged by itself, and an identical one once."""
    data = [{"a": "1"}, {"a": 1}, {"a": "2"}, {"a": 1}, {"a": [2]}]
    units = [Unit(f"jobs/{n}", True, (config_map("same", one),)) for n, one in enumerate(data)]
    assert [(p.unit_index, p.path, p.message) for p in check(units)] == [
        (1, ("data", "a"), "a: expected a string, found the integer 1"),
        (3, ("data", "a"), "a: expected a string, found the integer 1"),
        (4, ("data", "a"), "a: expected a string, found a list"),
    ]


@pytest.mark.parametrize("odd", ["\U0001f680", "\x7f", "\x85", "\u2028", "\ufeff", "\uffff", "é", "日本"])
def test_any_text_is_read(odd: str) -> None:
    assert check([Unit("odd", False, (config_map("odd", {"a": odd}),))]) == []
    assert len(check([Unit("odd", False, (config_map("odd", {"a": [odd]}),))])) == 1


def test_many_objects_are_judged_each() -> None:
    objects = tuple(config_map(f"map-{n}", {"a": n if n % 100 == 99 else "x"}, n) for n in range(1000))
    assert [p.object.index for p in check([Unit("many", False, objects)])] == list(range(99, 1000, 100))


@pytest.mark.parametrize("value", ["$NODES", "${NODES}", "${NODES:-4}", "<nodes>", "NUMBER_OF_NODES"])
def test_a_template_that_nobody_filled_in_yet_is_information(value: str) -> None:
    job = Object.of({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": _spec(value)}, 0)
    told = check([Unit("manifests", False, (job,))])
    assert [(p.path, p.severity) for p in told] == [(("spec", "parallelism"), Severity.INFO)]
    assert "template" in told[0].help
    assert [p.severity for p in check([Unit("jobs/team/a", True, (job,))])] == [None]


@pytest.mark.parametrize("value", ["four", "$", "4$", "<", "FOUR"])
def test_other_text_in_the_place_of_a_number_is_an_error(value: str) -> None:
    job = Object.of({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": _spec(value)}, 0)
    assert [p.severity for p in check([Unit("manifests", False, (job,))])] == [None]


def _spec(parallelism: object) -> dict[str, object]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
    return {"parallelism": parallelism, "template": {"spec": pod}}


def test_a_schema_by_hand_refuses_nobody_elses_fields() -> None:
    policy = {"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy", "metadata": {"name": "a"}}
    objects = (Object.of({**policy, "spec": {"docaTelemetryService": {}}}, 0),)
    assert check([Unit("manifests", False, objects)]) == []
    assert len(check([Unit("clusters/gpu-east/platform", False, objects)])) == 1
    misspelt = (Object.of({**policy, "spec": {"ofedDrivers": {}}}, 0),)
    assert [p.message for p in check([Unit("manifests", False, misspelt)])] == [
        'unknown field "ofedDrivers": did you mean "ofedDriver"?'
    ]


def test_what_sops_encrypted_is_decrypted_before_it_is_applied() -> None:
    secret = config_map("a", {"a": "ENC[AES256_GCM,data:x]"}).data
    assert check([Unit("manifests", False, (Object.of({**secret, "sops": {"mac": "ENC[...]"}}, 0),))]) == []
    assert len(check([Unit("manifests", False, (Object.of({**secret, "sops": {}}, 0),))])) == 1


def test_facts_are_left_to_the_job_file_check() -> None:
    job = Object.of({"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "spec": {"wrong": 1}}, 0)
    assert check([Unit("jobs/a", True, (job,), (job,))]) == []


def test_a_generated_name_is_as_good_as_a_name() -> None:
    maps = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}, "data": {"a": 1}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-{{ generateName }}"}, "data": {"b": 1}},
    ]
    unit = Unit("two", False, tuple(Object.of(data, n) for n, data in enumerate(maps)))
    assert [(p.object.index, p.path) for p in check([unit])] == [(0, ("data", "a")), (1, ("data", "b"))]


def test_a_schema_that_cannot_be_read_is_a_fault_of_ours(tmp_path: Path) -> None:
    (tmp_path / "schemas/kubernetes/v1").mkdir(parents=True)
    (tmp_path / "schemas/kubernetes/v1/configmap_v1.json").write_text('{"type": ')
    with pytest.raises(Fault, match=r"configmap_v1\.json is not a usable JSON Schema"):
        check([Unit("one", False, (config_map("a", {}),))], tmp_path)


def test_nothing_to_check_starts_nothing(tmp_path: Path) -> None:
    assert check([Unit("empty", False, ())], tmp_path) == []
