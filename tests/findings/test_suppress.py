"""Comments that silence findings."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard.findings.finding import Finding, Place, Position, Severity
from trainyard.findings.suppress import Guard, Suppression, apply, find
from trainyard.rules.index import all_rules
from trainyard.rules.registry import registered

FILE = "jobs/vision/vit-l/job.yaml"
RULES = {"NET002", "NCL003", "INP004", *registered()}

JOB = """\
apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: vit-l}
spec:
  rendezvousPort: 29500  # lint-jobs: ignore[NET002] no CNI of this cluster enforces policies
  # lint-jobs: ignore[NCL003, NET002] the fabric is down until May
  # and then this comment may go
  env:
    NCCL_IB_DISABLE: "1"
"""


def _at(line: int, rule: str = "NET002", file: str = FILE, **rest: object) -> Finding:
    place = Place("Job/vision/vit-l", "spec", Position(file, line, 3))
    return Finding(rule, "a-name", Severity.ERROR, "a message", place, **rest)  # type: ignore[arg-type]


def _judged(text: str, *findings: Finding, complete: Iterable[str] = (FILE,)) -> tuple[list[str], int]:
    kept, silenced = apply(findings, find(FILE, text), rules=RULES, complete_files=set(complete))
    return [f"{finding.rule} {finding.place.position.line}" for finding in kept if finding.place.position], len(
        silenced
    )


def test_a_comment_concerns_its_own_line_or_the_line_below() -> None:
    assert find(FILE, JOB) == [
        Suppression(
            file=FILE,
            line=5,
            target=range(5, 6),
            rules=("NET002",),
            reason="no CNI of this cluster enforces policies",
            position=Position(FILE, 5, 26, 68),
        ),
        Suppression(
            file=FILE,
            line=6,
            target=range(8, 9),
            rules=("NCL003", "NET002"),
            reason="the fabric is down until May",
            position=Position(FILE, 6, 3, 64),
        ),
    ]


def test_what_is_named_at_its_line_is_silenced_and_nothing_else() -> None:
    kept, silenced = _judged(JOB, _at(5), _at(5, "NCL003"), _at(6), _at(8, "NCL003"), _at(8), _at(9, "NCL003"))
    assert silenced == 3
    assert kept == ["NCL003 5", "NET002 6", "NCL003 9"]


def test_another_file_or_a_related_place_or_an_unknown_position_is_not_silenced() -> None:
    elsewhere = _at(5, file="base/job.yaml")
    related = _at(90, related=(Place("", "", Position(FILE, 5, 3)),))
    nowhere = Finding("NET002", "a-name", Severity.ERROR, "a message", Place("Job/a/b", "spec", None))
    kept, silenced = apply([elsewhere, related, nowhere], find(FILE, JOB), rules=RULES, complete_files=())
    assert (kept, silenced) == ([elsewhere, related, nowhere], [])


def test_an_unused_suppression_is_reported_for_each_rule_where_all_readers_were_linted() -> None:
    findings = (_at(5), _at(8, "NCL003"))
    assert _judged(JOB, *findings) == (["SUP001 6"], 2)
    assert _judged(JOB, *findings, complete=["base/job.yaml"]) == ([], 2)
    kept, _ = apply(findings, find(FILE, JOB), rules=RULES, complete_files={FILE})
    assert kept == [
        Finding(
            rule="SUP001",
            name="suppression-unused",
            severity=Severity.WARNING,
            message="suppression of NET002 silences nothing: NET002 finds nothing at line 8",
            place=Place("", "", Position(FILE, 6, 3, 64)),
            help="delete it, or put it at the line that the finding names",
        )
    ]


@pytest.mark.parametrize(
    "comment", ["ignore[NET002]", "ignore[NET002]   ", "ignore[NET002]: -", "ignore [ NET002 ] --"]
)
def test_without_a_reason_nothing_is_silenced(comment: str) -> None:
    text = f"port: 29500 # lint-jobs: {comment}\n"
    assert _judged(text, _at(1)) == (["NET002 1", "SUP002 1"], 0)


@pytest.mark.parametrize(
    "comment",
    [
        "ignore[NET002] why it holds here",
        "ignore[NET002]: why it holds here",
        "ignore [NET002 , ] -- why it holds here",
    ],
)
def test_a_reason_may_follow_a_colon_or_dashes(comment: str) -> None:
    text = f"port: 29500 # lint-jobs: {comment}\n"
    assert [suppression.reason for suppression in find(FILE, text)] == ["why it holds here"]
    assert _judged(text, _at(1)) == ([], 1)


@pytest.mark.parametrize(
    ("reason", "enough"),
    [
        ("x", False),
        ("false alarm", False),
        ("- -- ... !", False),
        ("see TRAIN-12", True),
        ("until the 4th", True),
        ("dieser Cluster hat kein CNI, das Regeln durchsetzt", True),
        ("本集群的网络插件不执行任何网络策略因此所有的端口始终开放", True),
    ],
)
def test_a_reason_has_a_few_words(reason: str, enough: bool) -> None:
    text = f"port: 29500 # lint-jobs: ignore[NET002] {reason}\n"
    assert _judged(text, _at(1)) == (([], 1) if enough else (["NET002 1", "SUP002 1"], 0))


@pytest.mark.parametrize(
    ("file", "jobs", "allowed"),
    [
        (FILE, (), False),
        ("jobs/vision/vit-l/sub/pod.yaml", (), False),
        ("examples/vit-l/job.yaml", ("examples/vit-l",), False),
        ("examples/vit-l/job.yaml", (), True),
        ("base/torchrun/job.yaml", ("jobs/vision/vit-l",), True),
        ("clusters/gpu-east/facts/cluster.yaml", ("jobs/vision/vit-l",), True),
    ],
)
def test_a_guarded_rule_is_silenced_outside_of_job_folders_alone(
    file: str, jobs: tuple[str, ...], allowed: bool
) -> None:
    text = "hostPID: true # lint-jobs: ignore[NET002, NCL003] the profiler needs it\n"
    findings = [_at(1, file=file), _at(1, "NCL003", file)]

    kept, silenced = apply(
        findings, find(file, text), rules=RULES, complete_files={file}, guard=Guard({"NET002"}, jobs)
    )

    assert [each.finding.rule for each in silenced] == (["NET002", "NCL003"] if allowed else ["NCL003"])
    assert [finding.rule for finding in kept] == ([] if allowed else ["NET002", "SUP005"])


OF_THREADS = "- name: OMP_NUM_THREADS # lint-jobs: ignore[NCL073] the pods share idle cores\n"


@pytest.mark.claim("former-ids-still-lead")
def test_a_former_id_silences_what_the_rule_finds_under_its_present_one() -> None:
    findings = [_at(1, "ENV031"), _at(1)]

    kept, silenced = apply(findings, find(FILE, OF_THREADS), rules=all_rules(), complete_files={FILE})

    assert [each.finding for each in silenced] == findings[:1]
    assert kept == findings[1:]


def test_an_unused_suppression_of_a_former_id_names_the_present_one() -> None:
    kept, _ = apply((), find(FILE, OF_THREADS), rules=all_rules(), complete_files={FILE})

    assert [finding.message for finding in kept] == [
        "suppression of NCL073 silences nothing: ENV031 finds nothing at line 1"
    ]


def test_a_former_id_of_a_guarded_rule_is_guarded() -> None:
    found, guard = _at(1, "ENV031"), Guard({"ENV031"})

    kept, silenced = apply([found], find(FILE, OF_THREADS), rules=all_rules(), complete_files={FILE}, guard=guard)

    assert (silenced, kept[0], kept[1].rule) == ([], found, "SUP005")


def test_rules_on_security_are_guarded() -> None:
    guarded = {rule.id for rule in all_rules().values() if rule.guarded}

    assert guarded >= {rule for rule in all_rules() if rule.startswith("SEC")}
    assert sorted(rule for rule in guarded if not rule.startswith("SEC")) == [
        "GIT004",
        "GIT005",
        "GIT012",
        *(f"GIT{number:03}" for number in range(20, 25)),
    ]


@pytest.mark.parametrize(
    ("named", "message", "remedy"),
    [
        ("NET2", "NET2 is not a rule", "`tools/lint-jobs rules` lists the rules"),
        ("net002", "net002 is not a rule", "write NET002"),
        ("INP004", "INP004 cannot be suppressed", "correct what it reports"),
        ("SUP001", "SUP001 cannot be suppressed", "correct what it reports"),
    ],
)
def test_naming_no_rule_is_an_error_and_the_other_rules_still_count(named: str, message: str, remedy: str) -> None:
    text = f"port: 29500 # lint-jobs: ignore[{named}, NET002] why it holds here\n"
    kept, silenced = apply([_at(1)], find(FILE, text), rules=RULES, complete_files={FILE})
    assert [(finding.rule, finding.message, finding.help) for finding in kept] == [("SUP003", message, remedy)]
    assert [each.finding for each in silenced] == [_at(1)]


@pytest.mark.parametrize(
    "comment",
    ["disable NET002 why", "ignore NET002 why", "ignore[] why it holds here", "ignore", "", "ignore-file[NET002] why"],
)
def test_a_comment_that_is_not_understood_is_an_error(comment: str) -> None:
    text = f"port: 29500 # lint-jobs: {comment}\n"
    assert _judged(text, _at(1)) == (["NET002 1", "SUP004 1"], 0)


def test_bad_input_and_the_suppressions_themselves_are_never_silenced() -> None:
    text = "port: 29500 # lint-jobs: ignore[NET002, INP004, SUP001] why it holds here\n"
    bad_input = _at(1, input_error=True)
    kept, silenced = apply(
        [bad_input, _at(1, "INP004"), _at(1, "SUP001")], find(FILE, text), rules=RULES, complete_files=()
    )
    assert silenced == []
    assert [finding.rule for finding in kept[:3]] == ["NET002", "INP004", "SUP001"]


CONTENT = {
    "block text": 'config: |\n  {\n  # lint-jobs: ignore[NET002] why it holds here\n  "port": 29500}\n',
    "folded text": "config: >-\n  a\n\n  # lint-jobs: ignore[NET002] why it holds here\n",
    "first line of a block text": "config: |\n  # lint-jobs: ignore[NET002] why it holds here\n  a\n",
    "block text with indentation": "config: |2\n    a\n  # lint-jobs: ignore[NET002] why it holds here\n",
    "double quotes": 'a: "b # lint-jobs: ignore[NET002] why it holds here"\n',
    "single quotes": "a: 'b # lint-jobs: ignore[NET002] why it holds here'\n",
    "quotes over lines": 'a: "b\n  # lint-jobs: ignore[NET002] why it holds here\n  c"\n',
    "quotes in flow": "a: [b, 'c # lint-jobs: ignore[NET002] why it holds here', {d: \"# lint-jobs: e\"}]\n",
    "plain text": "a: b# lint-jobs: ignore[NET002] why it holds here\n",
    "key": "'a # lint-jobs: ignore[NET002] why it holds here': 1\n",
    "second document": "a: 1\n---\nb: |\n  c\n  # lint-jobs: ignore[NET002] why it holds here\n",
    "other mark": "a: 1 # lint-jobsy: ignore[NET002] why it holds here\n",
    "words before the mark": "a: 1 # see lint-jobs: ignore[NET002] why it holds here\n",
    "broken YAML": "a: @b # lint-jobs: ignore[NET002] why it holds here\n",
    "lone surrogate": "a: \ud800 # lint-jobs: ignore[NET002] why it holds here\n",
    "no comment": "a: 1\n",
    "nothing": "",
}


@pytest.mark.parametrize("text", CONTENT.values(), ids=CONTENT)
def test_content_is_no_comment(text: str) -> None:
    assert find(FILE, text) == []


COMMENTS = {
    "after a plain value": ("a: 1 # lint-jobs: ignore[NET002] why it holds here\n", 1, [1]),
    "without blanks": ("a: 1 #lint-jobs:ignore[NET002]why it holds here\n", 1, [1]),
    "after quotes that hold one": ('a: "# lint-jobs: x" # lint-jobs: ignore[NET002] why it holds here\n', 1, [1]),
    "after another comment": ("a: 1 # old # lint-jobs: ignore[NET002] why it holds here\n", 1, [1]),
    "in flow": ("a: [1, # lint-jobs: ignore[NET002] why it holds here\n  2]\n", 1, [1]),
    "above": ("# lint-jobs: ignore[NET002] why it holds here\na: 1\n", 1, [2]),
    "above, in order": ("# first\n # lint-jobs: ignore[NET002] why it holds here\n  # last\na: 1\n", 2, [4]),
    "above a blank line": ("# lint-jobs: ignore[NET002] why it holds here\n\na: 1\n", 1, [2]),
    "at the end": ("a: 1\n# lint-jobs: ignore[NET002] why it holds here", 2, [3]),
    "above a block text": ("# lint-jobs: ignore[NET002] why it holds here\na: |\n  b\n  c\nd: 1\n", 1, [2, 3, 4]),
    "at a block text": ("a: | # lint-jobs: ignore[NET002] why it holds here\n  b\n  c\n\nd: 1\n", 1, [1, 2, 3]),
    "at the end of quotes": ('a: "b\n  c" # lint-jobs: ignore[NET002] why it holds here\n', 2, [1, 2]),
    "after a block text": ("a:\n  b: |\n    c\n  # lint-jobs: ignore[NET002] why it holds here\n  d: 1\n", 4, [5]),
    "after an empty block text": ("a: |\n# lint-jobs: ignore[NET002] why it holds here\nb: 1\n", 2, [3]),
    "behind a byte order mark": ("\ufeff# lint-jobs: ignore[NET002] why it holds here\na: 1\n", 1, [2]),
    "behind other line breaks": ("a: 1\r\nb: 2\rc: 3 # lint-jobs: ignore[NET002] why it holds here\r\n", 3, [3]),
    "in a second document": ("a: 1\n---\nb: 1 # lint-jobs: ignore[NET002] why it holds here\n", 3, [3]),
    "behind wide characters": ("a: 語🦙 # lint-jobs: ignore[NET002] why it holds here\n", 1, [1]),
}


@pytest.mark.parametrize(("text", "line", "target"), COMMENTS.values(), ids=COMMENTS)
def test_comments_are_found(text: str, line: int, target: list[int]) -> None:
    (found,) = find(FILE, text)
    assert (found.line, list(found.target), found.target_line) == (line, target, target[0])
    assert (found.rules, found.reason) == (("NET002",), "why it holds here")


def test_the_position_is_that_of_the_comment_in_characters() -> None:
    (found,) = find(FILE, "\ufeffa: 語🦙 # lint-jobs: ignore[NET002] why it holds here  \r\nb: 1\n")
    assert found.position == Position(FILE, 1, 7, len("# lint-jobs: ignore[NET002] why it holds here"))


@given(st.text("a: '\"#|>\n -[]{},", max_size=40), st.text("a: '\"#|>\n -[]{},", max_size=40))
def test_any_text_is_read_or_left(before: str, after: str) -> None:
    for found in find(FILE, f"{before}# lint-jobs: ignore[NET002] why it holds here\n{after}"):
        assert found.target.start >= 1
        assert found.line == before.count("\n") + 1


def test_the_pages_are_registered() -> None:
    declared = {id_: rule for id_, rule in registered().items() if id_.startswith("SUP")}
    assert [(rule.id, rule.name, rule.severity.label) for rule in declared.values()] == [
        ("SUP001", "suppression-unused", "warning"),
        ("SUP002", "suppression-without-reason", "error"),
        ("SUP003", "suppression-of-no-rule", "error"),
        ("SUP004", "suppression-not-understood", "error"),
        ("SUP005", "suppression-not-allowed", "error"),
    ]
