"""Values that the linter refuses by rules of its own are those that the API server refuses."""

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import yaml

from trainyard.controlplane import Client, Refused, running
from trainyard.errors import InputError
from trainyard.rules.examples import unit_of
from trainyard.rules.index import all_rules, problems
from trainyard.yaml.nodes import load_documents

pytestmark = pytest.mark.controlplane

POLICY = """
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: a, namespace: default}
spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: %s}]}]}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: a, namespace: default}
spec:
  %s
  template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}
"""
BLOCKS = (
    "{cidr: 10.60.0.0/16}", "{cidr: 10.60.0.1/16}", "{cidr: 10.60.0.0/99}", "{cidr: 10.60.0.0}", "{cidr: 10.60.0/16}",
    "{cidr: 10.60.0.0/255.255.0.0}", "{cidr: 010.60.0.0/16}", "{cidr: 256.1.1.1/8}", "{cidr: example.com}",
    "{cidr: 0.0.0.0/0}", "{cidr: 'fd00::/8'}", "{cidr: 'fd00::/129'}", "{cidr: 'fe80::%%eth0/64'}", "{cidr: '::/0'}",
    "{cidr: 'FD00::/8'}", "{cidr: 'fd00:0::/8'}", "{cidr: 'fd00::1/8'}", "{cidr: 10.60.0.0/-1}",
    "{cidr: 10.0.0.0/08}", "{cidr: ' 10.0.0.0/8'}", "{cidr: '::ffff:10.0.0.0/104'}",
    "{cidr: 10.60.0.0/16, except: [10.60.1.0/24]}", "{cidr: 10.60.0.0/16, except: [10.61.0.0/24]}",
    "{cidr: 10.60.0.0/16, except: [10.60.0.0/16]}", "{cidr: 10.60.0.0/16, except: [10.0.0.0/8]}",
    "{cidr: 10.60.0.0/16, except: ['fd00::/64']}", "{cidr: 10.60.0.0/16, except: [nothing]}",
    "{cidr: 10.60.0.0/16, except: ['']}", "{cidr: ''}", "{cidr: '', except: [10.0.0.0/8]}", "{cidr: ' '}",
    "{cidr: '::ffff:a00:0/104'}", "{cidr: '::ffff:0:0/96'}", "{cidr: '::ffff:10.0.0.0/64'}", "{cidr: '::ffff:0:0/95'}",
    "{cidr: '::ffff:a00:1/104'}", "{cidr: '::fffe:0:0/95'}", "{cidr: '::ffff:10.0.0.0/104', except: [10.1.0.0/16]}",
    "{cidr: '::a00:0/104'}", "{cidr: '::/0', except: ['::ffff:a00:0/104']}", "{cidr: '::1.2.3.4/128'}",
)  # fmt: skip
INDEXED = tuple(
    f"{{completionMode: Indexed, {', '.join(f'{name}: {count}' for name, count in zip(names, counts, strict=True))}}}"
    for names in ((), ("completions",), ("parallelism",), ("completions", "parallelism"))
    for counts in product((0, 1, 2, "null"), repeat=len(names))
)
COUNTS = (
    INDEXED
    + tuple(
        f"{{parallelism: 2, {field}: {value}}}"
        for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
        for value in (0, 1, -1, 100_000, 100_001, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**24)
    )
    + tuple(
        f"{{completionMode: Indexed, completions: 4, backoffLimitPerIndex: 1, {field}: {value}}}"
        for field in ("parallelism", "maxFailedIndexes", "backoffLimitPerIndex")
        for value in (1, -1, 4, 100_000, 100_001, 2**31)
    )
)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with running() as plane:
        client = plane.client()
        yield client
        client.close()


def refused_by_server(client: Client, data: dict[str, Any]) -> bool:
    try:
        client.create(data, dry_run=True)
    except Refused:
        return True
    return False


def refused_here(data: dict[str, Any], *rules: str) -> bool:
    return any(list(problems(all_rules()[rule], unit_of([data]), ())) for rule in rules)


def test_ranges_of_addresses(client: Client) -> None:
    policies = {block: yaml.safe_load(POLICY % block.replace("%%", "%")) for block in BLOCKS}

    server = {block: refused_by_server(client, policy) for block, policy in policies.items()}

    assert {block: refused_here(policy, "NET007") for block, policy in policies.items()} == server


def test_what_a_refused_range_is_to_be_written_as_is_taken(client: Client) -> None:
    policies = [yaml.safe_load(POLICY % block.replace("%%", "%")) for block in BLOCKS]
    said = {problem.help for policy in policies for problem in problems(all_rules()["NET007"], unit_of([policy]), ())}
    instead = sorted(help.removeprefix("write ") for help in said if re.fullmatch(r"write [0-9a-f.:]+/\d+", help))

    assert len(instead) > 5
    assert [cidr for cidr in instead if refused_by_server(client, yaml.safe_load(POLICY % f"{{cidr: '{cidr}'}}"))] == []


def test_of_a_key_that_stands_twice_the_last_value_counts(client: Client) -> None:
    """The server decodes YAML with the library of kubectl, which sends it the JSON that comes of it."""
    text = JOB % "backoffLimit: 1\n  suspend: true\n  backoffLimit: 2\n  backoffLimit: 3"
    path = client.path(yaml.safe_load(text), named=False)
    target = f"{path}?dryRun=All&fieldValidation=Ignore"
    twice: list[InputError] = []

    response = client._send("POST", target, text.encode(), "application/yaml")
    made = json.loads(response.read())

    (node,) = load_documents(text, "job.yaml", twice)
    assert (response.status, len(twice)) == (201, 2)
    assert made["spec"]["backoffLimit"] == node.plain()["spec"]["backoffLimit"] == 3


def test_counts_of_jobs(client: Client) -> None:
    jobs = {}
    for count in COUNTS:
        fields = yaml.safe_load(count)
        jobs[count] = yaml.safe_load(JOB % "suspend: true")
        jobs[count]["spec"] |= fields

    server = {count: refused_by_server(client, job) for count, job in jobs.items()}

    assert {count: refused_here(job, "JOB003", "JOB005") for count, job in jobs.items()} == server
