"""Which release of an operator a cluster runs, as far as manifests beside a job say so."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trainyard.objects.objects import Object, Spot
from trainyard.objects.unit import Unit
from trainyard.rules.common.parts import items, part, word

_TAG = re.compile(r"v?(?P<numbers>\d+\.\d+\.\d+)(?:-[0-9a-f]{7,})?\Z")
_REPOSITORY = re.compile(r"github\.com[/:]kubeflow/(?:training-operator|trainer)(?:\.git)?/?\Z")
_IMAGE = re.compile(r"(?:.*/)?(?:training-operator|training-v1/training-operator):(?P<tag>[\w.-]+)(?:@.*)?\Z")


@dataclass(frozen=True, slots=True)
class Release:
    """A release, and the field that names it."""

    version: tuple[int, ...]
    spot: Spot

    @property
    def name(self) -> str:
        """`v1.9.3`."""
        return "v" + ".".join(map(str, self.version))


def training_operator(unit: Unit) -> Iterator[Release]:
    """The releases of the training operator that the unit, or the platform of its cluster, installs."""
    for item in (*unit.objects, *(unit.platform or ())):
        for tag, spot in _named(item):
            match = _TAG.match(tag)
            if match is not None:
                yield Release(tuple(int(part[:9]) for part in match["numbers"].split(".")), spot)


def _named(item: Object) -> Iterator[tuple[str, Spot]]:
    """Tags of the operator that an object names: a source of Flux, an Application, the image of its Deployment."""
    if item.kind == "GitRepository" and _REPOSITORY.search(word(item.at("spec", "url"))):
        spot = item.at("spec", "ref", "tag")
        yield word(spot), spot
    if item.kind == "Application" and _REPOSITORY.search(word(item.at("spec", "source", "repoURL"))):
        spot = item.at("spec", "source", "targetRevision")
        yield word(spot), spot
    if item.kind == "Deployment":
        for container, _ in items(item.at("spec", "template", "spec", "containers")):
            match = _IMAGE.match(word(container.below("image")))
            if match is not None:
                yield match["tag"], container.below("image")
    if item.kind == "Kustomization" and part(item.at("spec")):
        for image, _ in items(item.at("spec", "images")):
            if word(image.below("name")).endswith("/training-operator"):
                yield word(image.below("newTag")), image.below("newTag")
