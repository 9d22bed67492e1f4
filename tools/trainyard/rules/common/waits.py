"""Images whose program waits for objects of the cluster."""

import re

WAITS_FOR = re.compile(r"(?:.*/)?k8s-wait-for(?:[:@].*)?\Z")
"""k8s-wait-for, wherever it is kept: it asks the API server for Jobs, pods or Services until they are ready."""
