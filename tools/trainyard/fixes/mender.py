"""Fixes for findings that are not a rule's: of what a source file itself says."""

from trainyard.findings.finding import Fix
from trainyard.fixes.plan import plan
from trainyard.objects.manifests import ManifestOrigin
from trainyard.objects.objects import Object
from trainyard.objects.remedy import Remedy
from trainyard.yaml.nodes import Node
from trainyard.yaml.sources import Sources


class Mender:
    """Makes remedies for one document of a source file into fixes."""

    def __init__(self, root: Node, sources: Sources) -> None:
        self.sources = sources
        self.document = Object.of(root.plain(), 0)
        """The document as an object, so that its fields have spots."""
        self._origin = ManifestOrigin([root])

    def __call__(self, remedy: Remedy, help: str = "") -> Fix:
        """The edits that a remedy comes to. `help` says what they do where the remedy does not."""
        return plan(remedy, help, self._origin, self.sources)
