"""What DNS answers, and the files that pods resolve names with."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rehearse.network.support import JOB, plan, pod, service
from trainyard.rehearse.network import NetworkPlan, PodSpot
from trainyard.rehearse.network.addresses import allocate
from trainyard.rehearse.network.answers import Answers
from trainyard.rehearse.network.endpoints import services_of
from trainyard.rehearse.network.explain import Names, names_in_vain
from trainyard.rehearse.network.names import hosts_file, link_variables, records, resolver_settings
from trainyard.rehearse.network.plan import Key
from trainyard.rehearse.network.wire import Malformed, Record, read_question, write_answer, write_question

RANKS = (pod(0, ports={("TCP", "rdzv"): 29400}), pod(1))
SVC = "research.svc.cluster.local"

CLUSTER_FIRST = f"search {SVC} svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"


def answers(given: NetworkPlan, *ready: PodSpot, gone: tuple[Key, ...] = ()) -> Answers:
    """A server for the plan as it stands."""
    found = records(given, services_of(given), allocate(given), {each.key for each in ready}, gone)
    return Answers(found)


def ask(server: Answers, name: str, kind: str = "A") -> tuple[int, list[Any]]:
    code, found = server.look_up(read_question(write_question(1, name, kind)))
    return code, [record.value for record in found]


def test_a_headless_service_has_the_addresses_and_names_of_its_pods() -> None:
    server = answers(plan(*RANKS, services=(service(publishNotReadyAddresses=True),)))
    assert ask(server, f"gpt.{SVC}") == (0, ["10.244.1.0", "10.244.1.1"])
    assert ask(server, f"GPT-1.gpt.{SVC}") == (0, ["10.244.1.1"])
    assert ask(server, f"gpt-1.gpt.{SVC}", "AAAA") == (0, [])
    assert ask(server, f"_rdzv._tcp.gpt.{SVC}", "SRV") == (
        0,
        [[0, 100, 29400, f"gpt-0.gpt.{SVC}"], [0, 100, 29400, f"gpt-1.gpt.{SVC}"]],
    )
    assert ask(server, "0.1.244.10.in-addr.arpa", "PTR") == (0, [f"gpt-0.gpt.{SVC}"])
    assert ask(server, "10-244-1-1.research.pod.cluster.local") == (0, ["10.244.1.1"])
    assert ask(server, SVC) == (0, [])
    assert ask(server, f"gpt-2.gpt.{SVC}") == (3, [])


def test_pods_that_are_not_ready_are_hidden_unless_they_are_published() -> None:
    hidden, shown = (
        plan(*RANKS, services=(service(),)),
        plan(*RANKS, services=(service(publishNotReadyAddresses=True),)),
    )
    assert ask(answers(hidden), f"gpt-1.gpt.{SVC}") == (3, [])
    assert ask(answers(hidden, RANKS[1]), f"gpt.{SVC}") == (0, ["10.244.1.1"])
    assert ask(answers(shown, gone=(RANKS[0].key,)), f"gpt.{SVC}") == (0, ["10.244.1.1"])


def test_a_pod_that_names_another_subdomain_has_no_name_under_the_service() -> None:
    lost = pod(0, subdomain="trainer")
    server = answers(plan(lost, services=(service(),)), lost)
    assert ask(server, f"gpt-0.gpt.{SVC}") == (3, [])
    assert ask(server, f"10-244-1-0.gpt.{SVC}") == (0, ["10.244.1.0"])


def test_virtual_addresses_and_aliases() -> None:
    web = service("web", clusterIP="10.96.3.3", ports=[{"name": "http", "port": 80}])
    docs = service("docs", type="ExternalName", externalName=f"web.{SVC}.")
    server = answers(plan(*RANKS, services=(web, docs)))
    assert ask(server, f"web.{SVC}") == (0, ["10.96.3.3"])
    assert ask(server, f"_http._tcp.web.{SVC}", "SRV") == (0, [[0, 100, 80, f"web.{SVC}"]])
    assert ask(server, f"docs.{SVC}") == (0, [f"web.{SVC}", "10.96.3.3"])
    assert ask(server, "kubernetes.default.svc.cluster.local") == (0, ["10.96.0.1"])


def test_names_that_dns_cannot_carry_are_nowhere() -> None:
    bad = service("x" * 64, publishNotReadyAddresses=True)
    away = service("away", type="ExternalName", externalName=f"{'y' * 300}.org")
    server = answers(plan(*RANKS, services=(bad, away)))
    assert ask(server, f"{'x' * 63}.{SVC}") == (3, [])
    assert ask(server, f"away.{SVC}") == (3, [])


def test_a_chain_of_aliases_that_bites_its_tail_ends() -> None:
    loop = service("loop", type="ExternalName", externalName=f"loop.{SVC}")
    code, found = ask(answers(plan(*RANKS, services=(loop,))), f"loop.{SVC}")
    assert (code, set(found)) == (0, {f"loop.{SVC}"})


@given(st.binary(max_size=80))
def test_bytes_that_are_no_question_are_told_from_those_that_are(message: bytes) -> None:
    try:
        question = read_question(message)
    except Malformed:
        return
    answer = write_answer(question, 3, [])
    assert answer[:2] == message[:2]
    assert answer[12:] == question.raw


def test_an_answer_too_long_for_a_datagram_says_so() -> None:
    question = read_question(write_question(7, f"gpt.{SVC}", "A"))
    many = [Record(question.name, "A", f"10.0.0.{index}") for index in range(40)]
    assert write_answer(question, 0, many)[2] & 0x02
    assert not write_answer(question, 0, many, limit=65535)[2] & 0x02


def test_ipblocks_single_out_no_address_of_the_rehearsal() -> None:
    policies = [
        {"spec": {"egress": [{"to": [{"ipBlock": {"cidr": cidr}} for cidr in ("10.244.0.0/20", "0.0.0.0/0")]}]}},
        {"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.96.0.0/24"}}, {"ipBlock": {"cidr": "fd00::/8"}}]}]}},
    ]
    found = allocate(plan(*RANKS, policies=tuple(policies)))
    assert found.pods[RANKS[0].key] == "10.42.1.0"
    assert found.dns == "10.43.0.10"


@pytest.mark.parametrize(
    ("details", "written"),
    [
        (
            {},
            CLUSTER_FIRST,
        ),
        ({"host_network": True}, "nameserver 172.18.0.2\n"),
        (
            {"host_network": True, "dns_policy": "ClusterFirstWithHostNet"},
            CLUSTER_FIRST,
        ),
        (
            {
                "dns_policy": "None",
                "dns_config": {
                    "nameservers": ["10.0.0.2"],
                    "searches": ["lab"],
                    "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
                },
            },
            "search lab\nnameserver 10.0.0.2\noptions ndots:2 edns0\n",
        ),
    ],
)
def test_resolver_settings_are_the_kubelets(details: dict[str, Any], written: str) -> None:
    one = pod(0, **details)
    assert resolver_settings(one, allocate(plan(one))) == written


def test_the_hosts_file_is_the_kubelets() -> None:
    alias = {"ip": "10.0.0.9", "hostnames": ["store", "store.lab"]}
    one, bare = pod(0, host_aliases=(alias,)), pod(1, hostname="", subdomain="")
    addresses = allocate(plan(one, bare))
    head = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
    assert hosts_file(one, addresses) == (f"{head}10.244.1.0\tgpt-0.gpt.{SVC}\tgpt-0\n10.0.0.9\tstore\tstore.lab\n")
    assert hosts_file(bare, addresses) == f"{head}10.244.1.1\tgpt-1-x7k2p\n"


def test_services_of_the_namespace_are_variables() -> None:
    web = service("web-ui", clusterIP="", ports=[{"name": "http", "port": 80}, {"name": "admin-2", "port": 81}])
    given = plan(*RANKS, services=(web, service()))
    found = link_variables(RANKS[0], services_of(given), allocate(given))
    assert {name: value for name, value in found.items() if name.startswith("WEB")} == {
        "WEB_UI_SERVICE_HOST": "10.96.0.100",
        "WEB_UI_SERVICE_PORT": "80",
        "WEB_UI_SERVICE_PORT_HTTP": "80",
        "WEB_UI_SERVICE_PORT_ADMIN_2": "81",
    }
    assert not any(name.startswith("GPT") for name in found)
    assert set(link_variables(pod(0, service_links=False), services_of(given), allocate(given))) == {
        "KUBERNETES_SERVICE_HOST",
        "KUBERNETES_SERVICE_PORT",
        "KUBERNETES_SERVICE_PORT_HTTPS",
    }


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("gpt-0.gpt", {"subdomain": ""}, "pod gpt-0-x7k2p has subdomain (none), not gpt"),
        ("gpt-0.gpt", {"labels": {}}, "the selector of Service gpt does not find pod gpt-0-x7k2p"),
        ("gpt", {"labels": {}}, "the selector of Service gpt finds no pod"),
        (
            "gpt-0.gpt.vision.svc.cluster.local",
            {},
            "there is no Service gpt in namespace vision (namespace research has one)",
        ),
        (
            "gpt-0.trainer",
            {},
            "there is no Service trainer in namespace research (there are: gpt); pod gpt-0-x7k2p has subdomain gpt",
        ),
        ("store.lab", {}, "no name of this cluster; names outside of it do not resolve in a rehearsal"),
        ("gpt.vision", {}, "there is no Service gpt in namespace vision (namespace research has one)"),
        ("a.b.example.org", {}, "no name of this cluster; names outside of it do not resolve in a rehearsal"),
    ],
)
def test_why_a_name_does_not_resolve(name: str, change: dict[str, Any], why: str) -> None:
    given = plan(pod(0, **change), services=(service(),), namespaces={"vision": {}})
    asker = pod(1, labels=JOB)
    assert Names(given, services_of(given), set(), set()).why_not(name, asker) == why


SEARCHES = (SVC, "svc.cluster.local", "cluster.local")


@pytest.mark.parametrize(
    ("name", "right"),
    [("gpt-0.gpt", 0), ("gpt-0.gpt.research", 1), ("gpt-0.gpt.research.svc", 2), (f"gpt-0.gpt.{SVC}", 3)],
)
def test_one_spelling_of_a_name_that_resolves_is_enough(name: str, right: int) -> None:
    spellings = [*(f"{name}.{domain}" for domain in SEARCHES), name]
    assert names_in_vain(spellings, (), SEARCHES) == [name]
    assert names_in_vain(spellings[:right], spellings[right : right + 1], SEARCHES) == []
    assert names_in_vain([each for each in spellings if each != spellings[right]], [spellings[right]], SEARCHES) == []
