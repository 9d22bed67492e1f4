"""What scripts fetch from the internet in pods that NetworkPolicies keep from it."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Spot
from trainyard.rules.common.once import once
from trainyard.rules.registry import Problem, rule
from trainyard.workload.command import basename
from trainyard.workload.model import Container, Word, Workload
from trainyard.workload.network import reaches_internet

_HTTPS = 443
_PROXIES = re.compile(r"(?i:https?|all)_proxy\Z")
_OTHER_INDEX = re.compile(r"(PIP_(INDEX_URL|CONFIG_FILE|NO_INDEX|FIND_LINKS)|UV_(DEFAULT_INDEX|INDEX_URL|OFFLINE))\Z")
_INDEX_OPTIONS = ("-f", "-i", "--find-links", "--index", "--default-index", "--index-url", "--no-index", "--offline")
_PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,.-]*\])?([=<>!~]=?[^/]*)?\Z")
_FILE = re.compile(r".*\.(txt|whl|gz|zip|toml)\Z")
_URL = re.compile(r"https://(?P<host>[\w.-]+)(/|\Z)")
_PUBLIC = frozenset(
    [
        "conda.anaconda.org",
        "developer.download.nvidia.com",
        "download.pytorch.org",
        "files.pythonhosted.org",
        "github.com",
        "gitlab.com",
        "huggingface.co",
        "pypi.org",
        "raw.githubusercontent.com",
        "repo.anaconda.com",
    ]
)
"""Hosts that are on the internet for everybody."""


@rule("NET006", "download-closed", Severity.WARNING, needs=Workload)
@once
def download_closed(workload: Workload) -> Iterator[Problem]:
    """A script fetches something from the internet, and the NetworkPolicies beside it let its pods go nowhere there.

    `pip install` tries for minutes and fails; `git clone` and `curl` do the same. A policy for egress closes everything
    that no rule opens, and rules that name pods, namespaces or private addresses open nothing outside.

    Bad:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - {name: trainer, command: [bash, -c, pip install peft && torchrun -m trainer], args: null}
    Good:
        kind: Job
        spec:
          template:
            spec:
              containers: [{name: trainer, command: [bash, -c, torchrun -m trainer], args: null}]
    Near miss:
        kind: Job
        spec:
          template:
            spec:
              containers:
              - name: trainer
                command: [bash, -c, "pip install --index-url https://pypi.lan/simple peft && torchrun -m trainer"]
                args: null

    Source: https://kubernetes.io/docs/concepts/services-networking/network-policies/#default-deny-all-egress-traffic
    """
    for pod_set in workload.pod_sets:
        asked = [each for c in chain(pod_set.init_containers, pod_set.containers) for each in _asked(c)]
        answer = reaches_internet(workload, pod_set, _HTTPS) if asked else None
        if answer is None or answer.allowed is not False:
            continue
        beside = [spot for spot in answer.spots if spot.object not in (workload.platform or ())]
        for what, host, spot in asked if beside else ():
            yield Problem(
                f"{what} asks {host}, but no NetworkPolicy of the pod lets it out to the internet",
                spot.saying("never answered"),
                tuple(each.saying("closes what no rule opens") for each in beside),
                "put it in the image or on a claim, or allow egress to TCP port 443",
            )


def _asked(container: Container) -> Iterator[tuple[str, str, Spot]]:
    """What a container's commands fetch, from which host, and the field that says so."""
    if any(map(_PROXIES.match, container.env)):
        return
    for line in container.lines:
        name, words = basename(line[0]), line[1:]
        if "install" in (word.text for word in words[:3]) and _installs(container, name, words):
            yield f"{name} install" if name.startswith("pip") else f"{name} pip install", "pypi.org", line[0].spot
        downloads = name in ("hf", "huggingface-cli") and [word.text for word in words[:1]] == ["download"]
        if downloads and "HF_ENDPOINT" not in container.env:
            yield f"{name} download", "huggingface.co", line[0].spot
        if name in ("curl", "git", "wget"):
            found = (match["host"] for word in words if (match := _URL.match(word.text)))
            yield from ((name, host, line[0].spot) for host in found if host in _PUBLIC)


def _installs(container: Container, name: str, words: Sequence[Word]) -> bool:
    """Whether the words of a command make pip take a package from its default index."""
    texts = [word.text for word in words]
    before = texts[: texts.index("install")]
    if not (name in ("pip", "pip3") or before == ["-m", "pip"] or (name == "uv" and before == ["pip"])):
        return False
    if any(map(_OTHER_INDEX.match, container.env)) or any(text.startswith(_INDEX_OPTIONS) for text in texts):
        return False
    behind = texts[len(before) + 1 :]
    if any(text in ("-e", "--editable", "-r", "--requirement", "-t", "--target") for text in behind):
        return False
    return any(_PACKAGE.match(text) and not _FILE.match(text) for text in behind)
