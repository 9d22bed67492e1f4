"""What may be typed at a place: keys and values of the schemas, and of the repository what its facts name."""

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainyard.author.choices import Choices
from trainyard.editor import described, outline
from trainyard.errors import InputError, UsageError
from trainyard.repository.discover import KUSTOMIZATION_NAMES
from trainyard.yaml.sources import Sources

_FACTS = re.compile(r"clusters/([^/\s]+)/facts")
_LISTS = (("resources", outline.ITEM), ("components", outline.ITEM))
"""Where a kustomization names folders."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Something that may be typed."""

    text: str
    detail: str
    """What it is, in a few words."""
    about: str = ""
    """A sentence or two."""
    is_key: bool = False
    holds: str = ""
    """Of a key: `object` or `array` where its value begins on the next line."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a document of a repository."""

    root: Path
    document: str
    """Path below the root."""
    lines: Sequence[str]
    row: int
    column: int
    """In characters, from 0."""
    sources: Sources

    @property
    def spot(self) -> outline.Spot:
        """Where it is in its YAML document."""
        return outline.spot(self.lines, self.row, self.column)


def proposals(place: Place) -> list[Proposal]:
    """What may be typed there; what does not begin with what is typed already is left to the editor to leave out."""
    spot = place.spot
    name = posixpath.basename(place.document)
    if name in KUSTOMIZATION_NAMES:
        return list(_folders(place)) if spot.at_value and spot.path in _LISTS else []
    whole = described.schema(*_type_at(place, spot))
    if whole is None:
        return []
    above = described.at(whole, spot.above)
    known: list[Proposal] = []
    if spot.at_value:
        here = described.at(whole, spot.path)
        known = list(_facts(place, spot.path))
        told = {each.text for each in known}
        listed = [] if here is None else described.values(here)
        known += [Proposal(text, "value") for text in listed if text not in told]
    if above is None or (spot.at_value and spot.key):
        return known
    start = place.column - len(spot.word)
    there = outline.keys_beside(place.lines, place.row, start)
    return known + [
        Proposal(key, described.takes(schema), schema.get("description", ""), True, str(schema.get("type", "")))
        for key, schema in described.keys(above).items()
        if key not in there
    ]


def about(place: Place) -> str:
    """What the schema says of the key at a place, as Markdown; empty where it says nothing."""
    spot = place.spot
    whole = described.schema(*_type_at(place, spot))
    here = None if whole is None or not spot.path else described.at(whole, spot.path)
    if here is None or "description" not in here:
        return ""
    path = ".".join(spot.path).replace(f".{outline.ITEM}", outline.ITEM)
    return "\n\n".join(part for part in (f"**{path}**", str(here["description"]), described.takes(here)) if part)


def _type_at(place: Place, spot: outline.Spot) -> tuple[str, str]:
    """apiVersion and kind of the document around a place; of a job.yaml that does not say it yet, those of a job."""
    found = tuple(outline.scalar_at_top(place.lines, spot.row, key) for key in ("apiVersion", "kind"))
    if posixpath.basename(place.document) == "job.yaml" and not all(found):
        return "trainyard.dev/v1alpha1", "TrainingJob"
    return found[0], found[1]


def _facts(place: Place, path: tuple[str, ...]) -> Iterator[Proposal]:
    """Values that the repository names for a key of a job."""
    choices = Choices(place.sources)
    folder = posixpath.dirname(place.document)
    if path == ("spec", "cluster"):
        yield from (Proposal(name, "cluster", _of_cluster(choices, name)) for name in choices.clusters())
    elif path == ("spec", "model"):
        yield from (
            Proposal(name, "model of the trainer", f"Samples of up to {tokens} tokens are proposed.")
            for name, tokens in choices.models().items()
        )
    elif path == ("spec", "dataset", "claim"):
        own = _cluster_of(place, folder)
        for cluster in (own,) if own else choices.clusters():
            with suppress(InputError, UsageError, KeyError):
                yield from (Proposal(claim, f"claim on {cluster}") for claim in choices.claims(cluster))
    elif path == ("spec", "dataset", "path"):
        team = posixpath.basename(posixpath.dirname(folder))
        yield from (Proposal(text, f"read by jobs of {team}") for text in choices.dataset_paths(team))
    elif path == ("metadata", "name"):
        yield Proposal(posixpath.basename(folder), "the folder's name")


def _cluster_of(place: Place, folder: str) -> str:
    """The cluster whose facts the kustomization beside a job.yaml names; empty where it names none."""
    for name in KUSTOMIZATION_NAMES:
        with suppress(InputError):
            if found := _FACTS.search(place.sources.text(f"{folder}/{name}")):
                return found[1]
    return ""


def _of_cluster(choices: Choices, name: str) -> str:
    """Nodes, GPUs and fabric of a cluster."""
    try:
        facts = choices.facts(name)
        spec, fabric = facts["Cluster"]["spec"], facts["Fabric"]["metadata"]["name"]
        return f"{spec['nodes']} nodes with {spec['node']['gpus']} x {spec['node']['gpu']}, fabric {fabric}"
    except (InputError, UsageError, KeyError, TypeError):
        return ""


def _folders(place: Place) -> Iterator[Proposal]:
    """Folders that a kustomization may name: ways to run a job, clusters, queues and fabrics."""
    choices = Choices(place.sources)
    here = posixpath.dirname(place.document)

    def to(folder: str) -> str:
        return os.path.relpath(folder, here or ".")

    yield from (
        Proposal(to(f"base/{name}"), "how it is launched", makes) for name, makes in choices.launchers().items()
    )
    yield from (
        Proposal(to(f"clusters/{name}/facts"), "where it runs", _of_cluster(choices, name))
        for name in choices.clusters()
    )
    yield from (Proposal(to(f"base/queue/{name}"), "queue or gang") for name in choices.queues())
    overlays = sorted(file.parent.name for file in place.root.glob("overlays/*/fabric.yaml"))
    yield from (Proposal(to(f"overlays/{name}"), "fabric") for name in overlays)
