"""A client for the API server of the cluster that this pod runs in."""

import os
import ssl
from pathlib import Path

from trainyard.controlplane.client import Client
from trainyard.errors import UsageError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def client_inside(account: Path = ACCOUNT) -> Client:
    """The client of this pod's ServiceAccount. UsageError outside a cluster."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT_HTTPS", "443")
    token = account / "token"
    if not host or not token.is_file():
        raise UsageError("this is not a pod with a ServiceAccount: name a context of your kubeconfig with --context")
    name = f"[{host}]" if ":" in host else host
    trust = ssl.create_default_context(cafile=str(account / "ca.crt"))
    return Client(f"https://{name}:{port}", trust, token=token.read_text().strip())
