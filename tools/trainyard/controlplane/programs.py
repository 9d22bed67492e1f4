"""The programs of a control plane: where they are, and how each is started in the plane's folder."""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path

from trainyard.home import HOME

PROGRAMS = HOME / ".tools" / "controlplane"
"""Where tools/bootstrap.py builds them."""

USERS = {
    "admin": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "kwok": "system:masters",
}
"""Who holds a token of the API server, and their group."""

JOB_CONTROLLERS = (
    "cronjob-controller",
    "disruption-controller",
    "endpointslice-controller",
    "endpoints-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "ttl-after-finished-controller",
)
"""Those of kube-controller-manager that a training job meets. Nodes are kwok's, so their life cycle is left alone."""

COMPONENTS = ("kube-controller-manager", "kube-scheduler", "kwok")
"""What may be started beside etcd and kube-apiserver."""

GOGC = "400"
"""Heaps grow to five times what lives in them: learning a cluster's definitions takes half the processor time."""

GOMEMLIMIT = "1GiB"
"""From here on heaps grow less. kube-apiserver would go up to 1.8 GB while it learns every definition that is kept."""

UNUSED_ADDRESS = "http://localhost:2379"
"""etcd wants an address to tell others. Nobody asks: its only client knows its socket."""


def etcd() -> list[str]:
    """etcd on a socket in the plane's folder, which nobody else may enter; nothing is synced, since nothing is kept."""
    return [
        str(PROGRAMS / "etcd"),
        "--data-dir=etcd",
        "--listen-client-urls=unix://etcd.sock",
        "--listen-peer-urls=unix://etcd-peer.sock",
        f"--advertise-client-urls={UNUSED_ADDRESS}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def api_server(port: int, watched: bool) -> list[str]:
    """kube-apiserver on a port of the loopback interface, with the admission plugins of a real cluster.

    Its watch cache is for controllers: a server that nobody watches goes without. The cache keeps the last minutes of
    every kind's changes, which grows with each pod that is made and removed, and a list waits for it to catch up.
    """
    return [
        str(PROGRAMS / "kube-apiserver"),
        "--etcd-servers=unix://etcd.sock",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",
        "--tls-cert-file=apiserver.crt",
        "--tls-private-key-file=apiserver.key",
        "--token-auth-file=tokens.csv",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=service-account.key",
        "--service-account-signing-key-file=service-account.key",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=RBAC",
        "--anonymous-auth=false",
        "--allow-privileged=true",
        "--profiling=false",
        f"--watch-cache={str(watched).lower()}",
    ]


def component(name: str, folder: Path, controllers: Sequence[str], stages: Sequence[str]) -> list[str]:
    """One of COMPONENTS. None listens anywhere."""
    program = str(PROGRAMS / name)
    if name == "kwok":
        files = [f"--config={PROGRAMS / 'stages' / stage}" for stage in stages]
        return [program, "--kubeconfig=kwok.kubeconfig", "--manage-all-nodes=true", "--server-address=", *files]
    user = f"system:{name}"
    flags = [f"--kubeconfig={folder / user}.kubeconfig", "--leader-elect=false", "--secure-port=0", "--profiling=false"]
    if name == "kube-scheduler":
        return [program, *flags]
    return [
        program,
        *flags,
        f"--controllers={','.join(controllers)}",
        "--use-service-account-credentials=true",
        "--pvclaimbinder-sync-period=1s",  # a volume that is made after its claim waits for this
        f"--service-account-private-key-file={folder / 'service-account.key'}",
        f"--root-ca-file={folder / 'ca.crt'}",
    ]


def write_tokens(folder: Path) -> dict[str, str]:
    """A fresh token for each of USERS, also in the file that kube-apiserver reads. Gives tokens by user."""
    tokens = {user: secrets.token_hex(24) for user in USERS}
    lines = [f'{tokens[user]},{user},{user},"{group}"' for user, group in USERS.items()]
    (folder / "tokens.csv").write_text("\n".join(lines) + "\n")
    return tokens


def write_kubeconfigs(folder: Path, server: str, tokens: dict[str, str]) -> None:
    """A kubeconfig USER.kubeconfig for each token; JSON is YAML too."""
    cluster = {"name": "own", "cluster": {"server": server, "certificate-authority": str(folder / "ca.crt")}}
    for user, token in tokens.items():
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [cluster],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "own", "context": {"cluster": "own", "user": user}}],
            "current-context": "own",
        }
        (folder / f"{user}.kubeconfig").write_text(json.dumps(config))
