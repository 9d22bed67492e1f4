"""Jobs of all that goes together: a base, a cluster, a queue, a component and a patch, drawn by a seed."""

import itertools
import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.bases.matrix import SOURCE, base_line, cluster_line, replaced, without_jobs
from tests.by_day import seed, takes_everything
from tests.product.patches import ANNOTATION, LABEL, PATCHES
from trainyard.docs import matrix
from trainyard.docs.matrix import NONE, REFUSED, Refusal, clusters, holds, refusal


class Combination(NamedTuple):
    """One choice of each kind; of components any number."""

    base: str
    cluster: str
    queue: str = NONE
    patch: str = NONE
    zero: str = NONE
    elastic: str = NONE
    dataset_cache: str = NONE
    gcs_fuse: str = NONE

    @property
    def parts(self) -> tuple[str, ...]:
        """What is listed or patched beside base and cluster."""
        return tuple(part for part in self[2:] if part != NONE)

    @property
    def refusal(self) -> Refusal | None:
        """Why this does not go together; None where it does."""
        return refusal(self.base, self.cluster, self.parts)

    def __str__(self) -> str:
        return " + ".join((self.base, self.cluster, *self.parts))


CHOICES: tuple[tuple[str, ...], ...] = (
    matrix.BASES,
    tuple(clusters()),
    (NONE, *(part.name for part in matrix.QUEUES)),
    (NONE, *(part.name for part in matrix.PATCHES)),
    *((NONE, part.name) for part in matrix.COMPONENTS),
)


@cache
def everything() -> tuple[Combination, ...]:
    """All that goes together."""
    return tuple(each for each in itertools.starmap(Combination, itertools.product(*CHOICES)) if each.refusal is None)


@cache
def refused() -> tuple[tuple[Combination, Refusal], ...]:
    """Each refusal under each base that it is about, and on each cluster without what it needs."""
    wanted = [each.needs for each in REFUSED if each.needs]
    whole = next(cluster for cluster in clusters() if all(holds(cluster, folder) for folder in wanted))
    found = []
    for each in REFUSED:
        places = [(base, whole) for base in each.bases] or [("torchrun", cluster) for cluster in clusters()]
        for base, cluster in places:
            parts = (each.part if each.part in names else NONE for names in CHOICES[2:])
            combination = Combination(base, cluster, *parts)
            if combination.refusal is each:
                found.append((combination, each))
    return tuple(found)


def drawn() -> tuple[Combination, ...]:
    """What a run of the tests takes: every pair of choices, or at night all there are."""
    return everything() if takes_everything() else cover(2, seed())


@cache
def cover(strength: int, drawn_by: str) -> tuple[Combination, ...]:
    """Few combinations with every `strength` choices that go together in one of them; which ones, the seed draws."""
    rng = random.Random(f"{strength} {drawn_by}")
    every = list(everything())
    rng.shuffle(every)
    having: dict[tuple[tuple[int, str], ...], list[Combination]] = {}
    for each in every:
        for chosen in _chosen(each, strength):
            having.setdefault(chosen, []).append(each)
    missing, found = dict.fromkeys(having), []
    while missing:
        candidates = having[next(iter(missing))][:_TRIED]
        best = max(candidates, key=lambda each: sum(chosen in missing for chosen in _chosen(each, strength)))
        found.append(best)
        for chosen in _chosen(best, strength):
            missing.pop(chosen, None)
    return tuple(found)


_TRIED = 40
"""How many candidates are compared for a set of choices that none has yet; more find hardly fewer combinations."""


def _chosen(combination: Combination, strength: int) -> Iterator[tuple[tuple[int, str], ...]]:
    return itertools.combinations(enumerate(combination), strength)


_SAYS = {"zero": "  parallelism: deepspeed\n", "elastic": "  elastic:\n    minNodes: 2\n"}
"""What job.yaml says where a component is listed."""


_GRANTED = {
    "annotations": {ANNOTATION: "*"},
    "labels": {LABEL: "*"},
    "egress": [{"ipBlock": {"cidr": f"169.254.169.{host}/32"}} for host in (252, 254)],
}
"""What team.yaml allows beside the rest: the patches' annotation and label, and GKE's metadata server for its FUSE."""


def repository(root: Path) -> None:
    """All that jobs are made of below `root`, where the teams may have what is drawn."""
    without_jobs(root)
    for file in (root / "clusters").glob("*/platform/research/team.yaml"):
        team = yaml.safe_load(file.read_text())
        assert not team["spec"].keys() & _GRANTED.keys()
        team["spec"] |= _GRANTED
        file.write_text(yaml.safe_dump(team))


def write(root: Path, combination: Combination, name: str) -> str:
    """Its job, below jobs/research of `root`. Returns the folder."""
    folder = root / "jobs/research" / name
    folder.mkdir(parents=True)
    job = replaced((SOURCE / "job.yaml").read_text(), "  name: gpt2-124m\n", f"  name: {name}\n")
    job += "".join(_SAYS.get(part, "") for part in combination.parts)
    (folder / "job.yaml").write_text(job)
    text = (SOURCE / "kustomization.yaml").read_text()
    text = replaced(text, base_line("torchrun"), base_line(combination.base))
    text = replaced(text, cluster_line("lab-west"), cluster_line(combination.cluster))
    listed = _listed(part for part in combination.parts if part not in PATCHES)
    text = replaced(text, "patches:\n", f"{listed}patches:\n")
    if combination.patch != NONE:
        patch = PATCHES[combination.patch]
        entry = f"- path: patch.yaml\n{patch.target}"
        text = replaced(text, "transformers:\n", f"{entry}{patch.generates}transformers:\n")
        for file, content in {"patch.yaml": patch.text, **patch.files}.items():
            (folder / file).write_text(content)
    (folder / "kustomization.yaml").write_text(text)
    return f"jobs/research/{name}"


def _listed(parts: Iterator[str]) -> str:
    lines = "".join(f"- ../../../base/{part}\n" for part in parts)
    return f"components:\n{lines}" if lines else ""


def names(combinations: Sequence[Combination]) -> list[str]:
    """A name for the job of each, all of one length."""
    return [f"c{index:04}" for index in range(len(combinations))]
