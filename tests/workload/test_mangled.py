"""Manifests that schemas would refuse never stop the toolkit."""

import contextlib
import copy
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workload.manifests import INPUTS, readable
from trainyard.lint.result import found_by_rules
from trainyard.objects.objects import Object
from trainyard.objects.unit import Unit
from trainyard.rules.index import all_rules
from trainyard.workload.environment import unresolved
from trainyard.workload.launch import argument
from trainyard.workload.network import ALL_PORTS, peers_reach, reaches_dns
from trainyard.workload.of_unit import workloads
from trainyard.workload.rendezvous import rendezvous
from trainyard.workload.services import resolve, services_for, subdomain_service

POLICY = """
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: peers, namespace: research}
spec:
  podSelector: {matchExpressions: [{key: trainyard.dev/job, operator: In, values: [gpt2-ddp]}]}
  policyTypes: [Ingress, Egress]
  ingress: [{from: [{podSelector: {}, namespaceSelector: {}}], ports: [{port: 1, endPort: 9, protocol: TCP}]}]
  egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}, {podSelector: {}}], ports: [{port: dns}]}]
"""
DOCUMENTS = [
    document
    for text in (POLICY, *(path.read_text() for path in sorted(INPUTS.glob("*.yaml"))))
    for document in yaml.safe_load_all(text)
]

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.just(10**30),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["", "$(JOB)", "$(", "${A", "'", "sh", "-c", "torchrun", "--", "=", "a:b:c", "-1", "9" * 400]),
    st.just([]),
    st.just({}),
    st.just([None, 1, "x", [], {}]),
    st.just({"name": None, "x": [1], "": {}}),
    st.just({7: 2, None: "x", True: []}),
)


def _places(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in entries:
        yield (*above, key)
        yield from _places(value, (*above, key))


def _numbered_places(documents: list[Any]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    return ((index, place) for index, document in enumerate(documents) for place in _places(document))


def _above(tree: Any, place: tuple[Any, ...]) -> Any:
    for step in place[:-1]:
        tree = tree[step]
    return tree


@pytest.mark.parametrize("file", sorted(INPUTS.glob("*.yaml")), ids=lambda file: file.stem)
def test_no_rule_raises_where_any_field_holds_a_list(file: Path) -> None:
    written = list(yaml.safe_load_all(file.read_text()))
    for index, place in _numbered_places(written):
        documents = copy.deepcopy(written)
        _above(documents[index], place)[place[-1]] = [[]]

        list(found_by_rules(all_rules(), Unit("mangled", False, tuple(map(Object.of, documents, count())))))


PLACES = list(_numbered_places(DOCUMENTS))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PLACES), junk), min_size=1, max_size=4))
def test_a_field_of_any_type_never_raises(changes: list[tuple[tuple[int, tuple[Any, ...]], Any]]) -> None:
    documents = copy.deepcopy(DOCUMENTS)
    for (index, place), value in changes:
        # Where an earlier change removed what is above this place, there is nothing left to change.
        with contextlib.suppress(LookupError, TypeError):
            _above(documents[index], place)[place[-1]] = copy.deepcopy(value)
    objects = tuple(Object.of(document, index) for index, document in enumerate(documents))
    for found in workloads(Unit("mangled", False, objects)):
        assert found.pods is None or found.pods >= 0
        readable(found)
        unresolved(found)
        peers_reach(found, ALL_PORTS)
        for pod_set in found.pod_sets:
            reaches_dns(found, pod_set)
            services_for(found, pod_set)
            subdomain_service(found, pod_set)
            main = pod_set.main()
            if main is None or main.launch is None:
                continue
            argument(main.launch.program, ("batch_size",))
            meeting = rendezvous(main.launch)
            if meeting is not None and isinstance(meeting.host.value, str):
                resolve(found, meeting.host.value)
