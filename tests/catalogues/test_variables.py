"""The catalogue of communication variables: its sources, its compiled form, and what it refuses."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from trainyard.catalogues.variables import FOLDER, compile_catalogue, names, nearest, variable
from trainyard.errors import Fault
from trainyard.rules.environment.names import FAMILIES
from trainyard.rules.examples import unit_of
from trainyard.rules.index import all_rules, problems
from trainyard.workload.of_unit import workloads

SOURCES = sorted(FOLDER.glob("*.yaml"))
EXAMPLES = [
    pytest.param(name, kind, value, id=f"{name}-{kind}-{value}")
    for source in SOURCES
    for name, facts in yaml.load(source.read_text(), yaml.CSafeLoader)["variables"].items()
    for kind, values in facts.get("examples", {}).items()
    for value in values
]


def test_the_compiled_file_is_what_its_sources_give() -> None:
    assert (FOLDER / "variables.json").read_text() == compile_catalogue()


def test_every_library_is_there() -> None:
    counts: dict[str, int] = {}
    for name in names():
        facts = variable(name)
        assert facts is not None
        counts[facts.owner] = counts.get(facts.owner, 0) + 1
    assert counts == {
        "aws-ofi-nccl": 63,
        "deepspeed": 5,
        "gloo": 2,
        "gpudirect-tcpx": 32,
        "gpudirect-tcpxo": 12,
        "mpi": 30,
        "nccl": 317,
        "pet": 26,
        "torch": 71,
        "ucx": 29,
    }


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_sources_are_sorted_and_keep_to_their_schema(source: Path) -> None:
    schema = json.loads((FOLDER / "variables.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    document = yaml.safe_load(source.read_text())
    assert list(Draft202012Validator(schema).iter_errors(document)) == []
    assert document["owner"] == source.stem
    assert list(document["variables"]) == sorted(document["variables"])


def test_what_replaces_a_variable_of_the_catalogue_is_in_use() -> None:
    dead = {
        (name, facts.instead)
        for name in names()
        if (facts := variable(name)) and (other := variable(facts.instead)) and other.status in ("phantom", "removed")
    }
    assert dead == set()


@pytest.mark.parametrize(("name", "kind", "value"), EXAMPLES)
def test_examples_of_the_sources(name: str, kind: str, value: str) -> None:
    facts = variable(name)
    assert facts is not None
    assert bool(facts.refuses(value)) == (kind == "bad")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("NCCL_IB_TIMEOUT", "40", "is above 31"),
        ("NCCL_IB_TIMEOUT", "0", "is below 1"),
        ("NCCL_IB_TIMEOUT", "0x16", ""),
        ("NCCL_IB_RETRY_CNT", "14", "is above 7"),
        ("NCCL_ALGO", "Ring;Tree", "has a second group without a collective: Tree"),
        ("NCCL_ALGO", "alltoall:ring", "names no collective: alltoall"),
        ("NCCL_PROTO", "LL64", "holds LL64, which is none of LL, LL128, Simple"),
        ("NCCL_DEBUG", "info", ""),
        ("NCCL_DEBUG", "DEBUG", "is none of VERSION, WARN, ATTN, INFO, ABORT, TRACE"),
        ("NCCL_NET_GDR_LEVEL", "sys", "is none of LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS, 0, 1, 2, 3, 4, 5"),
        ("TORCH_NCCL_BLOCKING_WAIT", "enabled", "is none of 0, 1, f, false, n, no, t, true, y, yes"),
        ("PET_STANDALONE", "true", "is none of 0, 1"),
        ("OFI_NCCL_PROTOCOL", "rdma", ""),
        ("NCCL_SOCKET_IFNAME", "eth0, eth1", "holds ' eth1', which is not an interface name"),
    ],
)
def test_why_a_value_is_refused(name: str, value: str, reason: str) -> None:
    facts = variable(name)
    assert facts is not None
    assert facts.refuses(value) == reason


@given(st.sampled_from(sorted(names())), st.text(max_size=40))
def test_any_text_is_judged(name: str, value: str) -> None:
    facts = variable(name)
    assert facts is not None
    assert isinstance(facts.refuses(value), str)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOKCET_IFNAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_IB_HAC", "NCCL_IB_HCA"),
        ("NCCL_IB_DISABLED", "NCCL_IB_DISABLE"),
        ("NCCL_MIN_NCHANNEL", "NCCL_MIN_NCHANNELS"),
        ("NCCL_MINNCHANNELS", "NCCL_MIN_NCHANNELS"),
        ("NCCL_MIN_CHANNEL", "NCCL_MIN_NCHANNELS"),
        ("NCCL_RING", None),
        ("NCCL_LAUNCHER_SCRIPT", None),
        ("MY_NCCL_DEBUG", None),
    ],
)
def test_the_nearest_name(written: str, meant: str | None) -> None:
    found = nearest(written, ("NCCL_",), 2)
    assert (found.name if found else None) == meant


def test_a_slip_in_any_name_that_a_library_reads_is_near_to_one() -> None:
    read = [known for name in sorted(names()) if (known := variable(name)) and known.status in ("", "deprecated")]
    slips = {known.name[:-1]: known for known in read if known.name.startswith(FAMILIES)}
    slips |= {known.name[:-3] + known.name[-2] + known.name[-3] + known.name[-1]: known for known in slips.values()}
    silent = [slip for slip in slips if variable(slip) is None and nearest(slip, FAMILIES, 1) is None]
    assert silent == []


def test_an_unknown_name_is_unknown() -> None:
    assert variable("NCCL_HOME") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("owner: x\nvariables: {X_Y: {type: number}}", 'x.yaml: variables.X_Y.type: "number" is not one of'),
        ("owner: x\nvariables: {x: {type: int}}", 'x.yaml: variables: "x" does not match'),
        ("owner: x", 'x.yaml: : "variables" is a required property'),
    ],
)
def test_a_source_that_breaks_the_schema(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "variables.schema.json").write_text((FOLDER / "variables.schema.json").read_text())
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(Fault) as raised:
        compile_catalogue(tmp_path)
    assert str(raised.value).startswith(message)


def test_a_variable_that_two_sources_claim(tmp_path: Path) -> None:
    (tmp_path / "variables.schema.json").write_text((FOLDER / "variables.schema.json").read_text())
    for owner in ("a", "b"):
        (tmp_path / f"{owner}.yaml").write_text(f"owner: {owner}\nvariables: {{X: {{type: int}}}}")
    with pytest.raises(Fault, match="X is already in"):
        compile_catalogue(tmp_path)


def told(rule: str, *variables: str) -> list[str]:
    """What a rule says of a Job with these variables, with its help."""
    env = [{"name": name, "value": "1"} for name in variables]
    pod = {"containers": [{"name": "a", "image": "a", "command": ["torchrun", "train.py"], "env": env}]}
    unit = unit_of([{"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}}])
    found = problems(all_rules()[rule], unit, tuple(workloads(unit)))
    return sorted(f"{problem.message}: {problem.help}" for problem in found)


FEW = ("CUDA_", "DEEPSPEED_", "FI_", "OMP_", "PYTORCH_", "TORCHELASTIC_", "TORCH_")
KNOWN = sorted(name for name in names() if name.startswith(FEW) and not name.startswith(FAMILIES))


def slips(name: str) -> set[str]:
    """The name without one of its letters, or with one of them twice, behind its prefix."""
    start = name.index("_") + 1
    letters = [at for at in range(start, len(name)) if name[at].isalpha()]
    return {name[:at] + kept + name[at + 1 :] for at in letters for kept in ("", 2 * name[at])}


@pytest.mark.parametrize("name", KNOWN)
def test_a_letter_dropped_or_doubled_is_told(name: str) -> None:
    misspelt = sorted(slips(name) - names())

    found = told("ENV002", *misspelt)

    assert [line.partition(" ")[0] for line in found] == misspelt


@pytest.mark.parametrize(
    "name",
    [
        "CUDA_DEVICE_MEMORY_LIMIT",
        "CUDA_VISIBLE_DEVICES2",
        "CUDA_VISIBLE_DEVICES_",
        "CUDA_VISIBLE_DEVICE_ID",
        "DEEPSPEED_TIMEOUT_SECONDS",
        "FI_EFA_EQ_SIZE",
        "FI_PROVIDER_PATH",
        "OMP_NUM_TEAMS",
        "OMP_THREAD_LIMIT",
        "PYTORCH_HIP_ALLOC_CONF",
        "TORCH_CUDA_ARCH_LIST",
        "TORCH_DISTRIBUTED_DEBUG_",
        "TORCH_LOGS",
    ],
)
def test_what_other_programs_read_is_no_slip(name: str) -> None:
    assert told("ENV002", name) == []


def test_a_name_near_one_that_was_removed_is_told_which() -> None:
    assert told("ENV002", "NCCL_LL_THRESOLD", "NCCL_CHECKS_DISABL") == []
    assert told("ENV032", "NCCL_LL_THRESOLD", "NCCL_CHECKS_DISABL") == [
        "NCCL_CHECKS_DISABL is not among the variables that NCCL and its known plugins read: remove it:"
        " NCCL_CHECKS_DISABLE, which may be meant, is no longer read by NCCL since 2.2.12",
        "NCCL_LL_THRESOLD is not among the variables that NCCL and its known plugins read: remove it:"
        " NCCL_LL_THRESHOLD, which may be meant, is no longer read by NCCL since 2.5",
    ]
