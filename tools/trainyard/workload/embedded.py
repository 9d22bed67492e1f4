"""YAML in a text of a manifest that a program reads with PyYAML."""

from collections.abc import Mapping
from typing import Any

import yaml

from trainyard.errors import InputError
from trainyard.workload.plain import mapping
from trainyard.yaml.nodes import load_documents

_LONGEST = 1 << 20
"""Characters of a text that is read: no ConfigMap holds more."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def yaml_map(written: Any) -> Mapping[Any, Any]:
    """The map that a text holds; an empty one where it holds none, cannot be read, or grows without bounds."""
    if not isinstance(written, str) or len(written) > _LONGEST:
        return {}
    try:
        load_documents(written, "")  # aliases are counted there
        return mapping(yaml.load(written, _LOADER))
    except (InputError, yaml.YAMLError, RecursionError, ValueError):
        return {}
