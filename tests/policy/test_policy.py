"""The exported policies as files, without a server: tests/controlplane/test_policy.py asks one."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard.findings.finding import Severity
from trainyard.lint.cli import main
from trainyard.policy import POLICIES
from trainyard.policy.files import FOLDER, PAGE, files, page, stream
from trainyard.rules.index import all_rules


def test_base_and_page_are_what_update_docs_writes() -> None:
    assert {file.name: file.read_text() for file in FOLDER.glob("*.yaml")} == files(), "run tools/update-docs"
    assert PAGE.read_text() == page(PAGE.read_text()), "run tools/update-docs"


def test_each_policy_acts_as_severely_as_its_rule() -> None:
    rules = all_rules()
    bindings = [item["spec"] for item in documents("ValidatingAdmissionPolicyBinding")]
    actions: dict[str, list[list[str]]] = {}
    for spec in bindings:
        actions.setdefault(spec["policyName"], []).append(spec["validationActions"])

    assert len(actions) == len(POLICIES) >= 5
    for policy in POLICIES:
        denies = rules[policy.rule].severity is Severity.ERROR
        assert all(each == (["Deny"] if denies else ["Warn", "Audit"]) for each in actions[policy.name])


def test_the_message_names_the_rule_and_its_page() -> None:
    for item in documents("ValidatingAdmissionPolicy"):
        rule = item["metadata"]["name"].partition(".")[0].upper()
        (validation,) = item["spec"]["validations"]
        assert validation["message"].startswith(f"{rule} ")
        assert validation["message"].endswith(f"tools/lint-jobs explain {rule}")


def test_a_folder_gets_what_standard_output_gets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export-policy", "--output", str(tmp_path / "policies")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'policies'}: {len(files())} files\n"
    assert main(["export-policy"]) == 0

    assert {file.name: file.read_text() for file in (tmp_path / "policies").iterdir()} == files()
    assert capsys.readouterr().out == stream()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")

    assert main(["export-policy", "--output", str(tmp_path / "file" / "policies")]) == 2
    assert capsys.readouterr().err == f"lint-jobs: cannot make {tmp_path / 'file' / 'policies'}: not a directory\n"


def documents(kind: str) -> list[Any]:
    return [item for item in yaml.safe_load_all(stream()) if item["kind"] == kind]
