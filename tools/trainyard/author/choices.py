"""What there is to choose from, as the repository has it: teams, ways to run a job, clusters, models, datasets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainyard.docs.matrix import WAYS
from trainyard.kustomize.replay import replay
from trainyard.plan.repository import facts_of
from trainyard.plan.shapes import shapes
from trainyard.yaml.nodes import Node
from trainyard.yaml.sources import Sources

LONGEST_SAMPLE = 8192
"""Tokens of a sample that are proposed at most, whatever the model could take."""


@dataclass(frozen=True, slots=True)
class Choices:
    """A repository, as far as a new job needs it."""

    sources: Sources

    @property
    def root(self) -> Path:
        return self.sources.root

    def launchers(self) -> dict[str, str]:
        """Folders of base/ that run a job, and what each makes."""
        return {way.base: way.makes for way in WAYS if (self.root / "base" / way.base).is_dir()}

    def clusters(self) -> tuple[str, ...]:
        """Clusters with facts."""
        return tuple(sorted(file.parent.parent.name for file in self.root.glob("clusters/*/facts/kustomization.yaml")))

    def teams(self, cluster: str) -> tuple[str, ...]:
        """Teams that have a namespace on a cluster."""
        files = sorted(self.root.glob(f"clusters/{cluster}/platform/*/kustomization.yaml"))
        return tuple(
            file.parent.name for file in files if re.search(r"^- \S*/base/team$", file.read_text(), re.MULTILINE)
        )

    def queues(self) -> tuple[str, ...]:
        """Queues and gangs that a job can name."""
        return tuple(sorted(file.parent.name for file in self.root.glob("base/queue/*/kustomization.yaml")))

    def models(self) -> dict[str, int]:
        """Models that the trainer has presets of, and the longest sample of each that is proposed, in tokens."""
        return {name: min(shape.context, LONGEST_SAMPLE) for name, shape in shapes().items()}

    def facts(self, cluster: str) -> dict[str, Mapping[str, Any]]:
        """The Cluster and the Fabric of a cluster."""
        return facts_of(self.sources, cluster)

    def claims(self, cluster: str) -> tuple[str, ...]:
        """Claims with datasets on a cluster."""
        return tuple(self.facts(cluster)["Cluster"]["spec"]["storage"]["datasetClaims"])

    def defaults(self, launcher: str) -> Mapping[str, Any]:
        """The TrainingJob of a base, which a job.yaml is merged into."""
        for node in replay(self.root, f"base/{launcher}", self.sources).facts:
            kind = node.at(("kind",))
            if isinstance(kind, Node) and kind.value == "TrainingJob":
                found: Mapping[str, Any] = node.plain()
                return found
        return {}

    def dataset_paths(self, team: str) -> tuple[str, ...]:
        """Folders that other jobs of a team read."""
        files = sorted(self.root.glob(f"jobs/{team}/*/job.yaml"))
        found = (re.search(r"^    path: (/data/\S+)$", file.read_text(), re.MULTILINE) for file in files)
        return tuple(dict.fromkeys(match[1] for match in found if match))
