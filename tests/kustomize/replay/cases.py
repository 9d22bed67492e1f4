"""The trees of all kinds of kustomization fields, by name."""

from tests.kustomize.replay import (
    test_generators,
    test_names_and_labels,
    test_patches,
    test_resources,
    test_transformers,
)

KINDS = (test_resources, test_generators, test_patches, test_names_and_labels, test_transformers)
CASES = {name: case for kind in KINDS for name, case in kind.CASES.items()}
