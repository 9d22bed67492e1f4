"""A rendered object, and a field of one."""

from dataclasses import dataclass, field
from typing import Any

from trainyard.yaml.fieldpath import Path


@dataclass(frozen=True, slots=True)
class Object:
    """One object as the cluster would get it, or one of the local facts (TrainingJob, Fabric, Cluster)."""

    data: dict[str, Any] = field(repr=False, compare=False)
    index: int
    """Its place among the objects of its unit; facts count on after the rendered ones."""
    api_version: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, data: dict[str, Any], index: int) -> "Object":
        """Wrap plain data. Fields of the wrong type count as absent: schemas report them."""
        metadata = data.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        return cls(
            data=data,
            index=index,
            api_version=_text(data.get("apiVersion")),
            kind=_text(data.get("kind")),
            namespace=_text(metadata.get("namespace")),
            name=_text(metadata.get("name")) or _text(metadata.get("generateName")),
        )

    @property
    def group(self) -> str:
        """API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def title(self) -> str:
        """kind/namespace/name, or kind/name where there is no namespace."""
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)

    def at(self, *path: str | int, label: str = "") -> "Spot":
        """A field of this object."""
        return Spot(self, path, label)


@dataclass(frozen=True, slots=True)
class Spot:
    """A field of an object. Where the field is absent, a report shows the nearest one above it that is there."""

    object: Object
    path: Path
    label: str = ""
    at_key: bool = False
    """True where the name of the field is meant, not its value."""

    def below(self, *path: str | int, label: str = "") -> "Spot":
        """A field under this one."""
        return Spot(self.object, self.path + path, label)

    def saying(self, label: str) -> "Spot":
        """The same field with other words under its caret."""
        return Spot(self.object, self.path, label, self.at_key)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
