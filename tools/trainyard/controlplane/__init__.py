"""A Kubernetes control plane of its own, on this machine, for as long as it is asked questions.

`running` starts the pinned etcd and kube-apiserver, and the controllers that are asked for, under a supervisor: a
process that ends them and removes their folder as soon as whoever asked for them is gone, however it went.
"""

from trainyard.controlplane.client import Client, Refused
from trainyard.controlplane.plane import Plane, running

__all__ = ["Client", "Plane", "Refused", "running"]
