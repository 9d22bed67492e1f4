"""Which jobs read a file that several share."""

from functools import cached_property
from pathlib import Path

from trainyard.errors import InputError, UsageError
from trainyard.findings.finding import Finding
from trainyard.kustomize.kustomization import files_read
from trainyard.repository.discover import TargetKind, discover
from trainyard.yaml.sources import Sources


class Readers:
    """The jobs of a repository and the files that each is rendered from."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def others(self, finding: Finding) -> list[str]:
        """Jobs that read what the finding's fix edits, and of which the finding says nothing."""
        files = {edit.file for edit in finding.fix.edits} if finding.fix is not None else set()
        own = tuple(f"{job}/" for job in finding.jobs)
        shared = {file for file in files if not file.startswith(own) and file not in finding.jobs}
        if not shared:
            return []
        return sorted(job for job, read in self._files.items() if job not in finding.jobs and shared & read)

    @cached_property
    def _files(self) -> dict[str, frozenset[str]]:
        try:
            targets = discover([], self.root, self.root).targets
        except UsageError:
            return {}
        sources = Sources(self.root)
        found = {}
        for target in targets:
            try:
                if target.kind is not TargetKind.MANIFESTS:
                    found[target.name] = files_read(self.root, target.name, sources)
            except InputError:
                continue
        return found
