"""One world whose pods are made by several Jobs."""

from tests.rules.judging import judge

PART = """
---
apiVersion: batch/v1
kind: Job
metadata: {name: %(name)s, namespace: bench}
spec:
  backoffLimit: 0
  template:
    metadata: {labels: {part: %(name)s}}
    spec:
      restartPolicy: Never
      containers:
      - name: probe
        image: registry.example.com/probe:1
        command: [torchrun, --nnodes=%(nodes)s, --node_rank=%(rank)s, --rdzv_backend=static, "--rdzv_endpoint=%(host)s",
                  probe.py]
"""
FIRST = {"name": "first", "nodes": "2", "rank": "0", "host": "first:29500"}
SECOND = {**FIRST, "name": "second", "rank": "1"}


def _judged(*parts: dict[str, str]) -> list[str]:
    return [said.split(" @ ")[0] for said in judge("RDV001", "".join(PART % part for part in parts))]


def test_jobs_that_meet_at_one_place_are_counted_together() -> None:
    assert _judged(FIRST, SECOND) == []
    assert _judged(FIRST) == ["error: torchrun counts on 2 nodes, but 1 pod runs it"]


def test_too_few_of_them_are_told_with_their_number() -> None:
    three = ({**FIRST, "nodes": "3"}, {**SECOND, "nodes": "3"})
    assert _judged(*three) == ["error: torchrun counts on 3 nodes, but 2 pods run it"] * 2


def test_jobs_that_meet_elsewhere_are_not_counted() -> None:
    others = {**SECOND, "host": "second:29500"}
    assert _judged(FIRST, others) == ["error: torchrun counts on 2 nodes, but 1 pod runs it"] * 2


def test_jobs_whose_meeting_is_not_known_may_be_one_world() -> None:
    told = PART.replace(
        "image:", "env: [{name: HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]\n        image:"
    )
    jobs = "".join(told % {**part, "host": "$(HOST):29500"} for part in (FIRST, SECOND))
    assert judge("RDV001", jobs) == []
