"""Values that another program writes before an object is applied: a template is not to be judged by them."""

import re

_MARKED = re.compile(r".*(\$[({A-Za-z_]|\{\{)|<[^<>]+>\Z|\{[^{}]+\}\Z", 0)
"""`$NODES` and `${NODES}` of envsubst, Helm's and Argo's braces, `<nodes>`."""
_SHOUTED = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+\Z")
"""`NUMBER_OF_NODES`, which `sed` replaces."""

FILLED = "a template: name what is made of it, such as envsubst < FILE | lint-jobs -"
"""The help of a finding about such a value."""


def is_filled_in(value: object) -> bool:
    """Whether something stands for a value that is yet to be written there."""
    return isinstance(value, str) and (_MARKED.match(value) is not None or _SHOUTED.match(value) is not None)
