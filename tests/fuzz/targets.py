"""Every promise by name. `tools/fuzz` searches for inputs that break one; `corpus/` keeps what was found and what it
grew from, a folder a target, and test_corpus.py holds every promise for all of it.
"""

from collections.abc import Callable, Mapping

from tests.fuzz import edits, outputs, parsers

TARGETS: Mapping[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        parsers.amounts,
        outputs.differences,
        parsers.ds_config,
        edits.edits,
        parsers.env,
        parsers.field_paths,
        edits.fixes,
        parsers.job_file,
        parsers.kustomizations,
        parsers.kustomize_errors,
        outputs.manifest,
        outputs.reports,
        parsers.secrets,
        parsers.settings,
        parsers.suppressions,
        parsers.yaml,
    )
}
