"""Rendered objects in, whole problem lists out, through the real kubeconform."""

import stat
from pathlib import Path

import pytest

from tests.schemas.conftest import HERE, HOME, Snapshot, as_text, unit_of
from trainyard import schema
from trainyard.errors import Fault
from trainyard.objects import Object
from trainyard.schema import check
from trainyard.unit import Unit

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
def test_any_text_reaches_kubeconform(odd: str) -> None:
    assert check([Unit("odd", False, (config_map("odd", {"a": odd}),))]) == []
    assert len(check([Unit("odd", False, (config_map("odd", {"a": [odd]}),))])) == 1


def test_many_objects_fill_many_files() -> None:
    objects = tuple(config_map(f"map-{n}", {"a": n if n % 100 == 99 else "x"}, n) for n in range(1000))
    assert [p.object.index for p in check([Unit("many", False, objects)])] == list(range(99, 1000, 100))


def test_facts_are_left_to_the_job_file_check() -> None:
    job = Object.of({"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "spec": {"wrong": 1}}, 0)
    assert check([Unit("jobs/a", True, (job,), (job,))]) == []


def test_an_unusual_generate_name_does_not_confuse_the_report() -> None:
    maps = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}, "data": {"a": 1}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a-{{ generateName }}"}, "data": {"b": 1}},
    ]
    unit = Unit("two", False, tuple(Object.of(data, n) for n, data in enumerate(maps)))
    assert [(p.object.index, p.path) for p in check([unit])] == [(0, ("data", "a")), (1, ("data", "b"))]


def home_with(tmp_path: Path, script: str) -> Path:
    binary = tmp_path / ".tools/bin/kubeconform"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "schemas").symlink_to(HOME / "schemas")
    return tmp_path


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'panic: out of memory' >&2; exit 2", "kubeconform failed with exit code 2: panic: out of memory"),
        ("echo garbage", "kubeconform failed with exit code 0: it printed no report"),
        ("echo '[]'", "kubeconform failed with exit code 0"),
        ("echo '{}'; exit 7", "kubeconform failed with exit code 7"),
        ("echo '{}'", "kubeconform's report is not understood: KeyError('summary')"),
        (
            """echo '{"resources": [], "summary": {"valid": 0, "invalid": 0, "errors": 0, "skipped": 0}}'""",
            "kubeconform judged {'valid': 0, 'invalid': 0, 'errors': 0, 'skipped': 0} of 1 objects",
        ),
        (
            """echo '{"resources": [{"filename": "other", "kind": "", "version": "", "name": "", "msg": ""}],"""
            """ "summary": {"valid": 0, "invalid": 1, "errors": 0, "skipped": 0}}'""",
            "kubeconform's report is not understood: KeyError('other')",
        ),
    ],
)
def test_a_broken_kubeconform_is_a_fault_of_ours(tmp_path: Path, script: str, message: str) -> None:
    home = home_with(tmp_path, script)
    with pytest.raises(Fault) as caught:
        check([Unit("one", False, (config_map("a", {}),))], home)
    assert str(caught.value) == message


def test_a_hanging_kubeconform_is_a_fault_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "_SECONDS", 0.2)
    with pytest.raises(Fault, match="kubeconform did not end within 0 s"):
        check([Unit("one", False, (config_map("a", {}),))], home_with(tmp_path, "exec sleep 60"))


def test_a_missing_kubeconform_is_a_fault_of_ours(tmp_path: Path) -> None:
    home = home_with(tmp_path, "")
    (home / ".tools/bin/kubeconform").unlink()
    with pytest.raises(Fault, match=r"kubeconform cannot be started: .*No such file"):
        check([Unit("one", False, (config_map("a", {}),))], home)


def test_nothing_to_check_starts_nothing(tmp_path: Path) -> None:
    assert check([Unit("empty", False, ())], tmp_path) == []


def test_what_only_kubeconform_refuses_is_passed_on(tmp_path: Path) -> None:
    """Two readers of one schema: where they differ, the stricter one counts, in its own words."""
    script = """cat <<END
    {"resources": [{"filename": "$(echo "$@" | sed 's/.* //')/000000.json", "kind": "ConfigMap", "version": "v1",
                    "name": "a", "msg": "refused for a reason of its own"}],
     "summary": {"valid": 0, "invalid": 1, "errors": 0, "skipped": 0}}
END
exit 1"""
    problems = check([Unit("one", False, (config_map("a", {}),))], home_with(tmp_path, script))
    assert [(p.rule_id, p.path, p.message) for p in problems] == [("SCH001", (), "refused for a reason of its own")]
