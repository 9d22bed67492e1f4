"""A client for a cluster of one's own, from a context of the kubeconfig that kubectl reads."""

import base64
import json
import os
import ssl
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from trainyard.controlplane.client import Client
from trainyard.errors import Fault, UsageError

EXEC_SECONDS = 60
"""How long a sign-in program may take."""


def client_of(context: str) -> Client:
    """A client for a context. UsageError where the kubeconfig does not have it or asks for what is not understood."""
    files = _files()
    documents = [(file, _document(file)) for file in files if file.is_file()]
    if not documents:
        raise UsageError(f"no kubeconfig: {', '.join(map(str, files))} does not exist")
    _, entry = _named(documents, "contexts", context, "context")
    home, cluster = _named(documents, "clusters", str(entry.get("cluster", "")), "cluster")
    if "proxy-url" in cluster:
        raise UsageError(f"context {context} goes through a proxy, which is not understood")
    user_home, user = _named(documents, "users", str(entry.get("user", "")), "user")
    trust = _trust(cluster, home.parent)
    token, basic = _identify(user, user_home.parent, trust)
    return Client(str(cluster.get("server", "")), trust, token=token, basic=basic)


def _files() -> list[Path]:
    named = os.environ.get("KUBECONFIG", "")
    if named:
        return [Path(part) for part in named.split(os.pathsep) if part]
    return [Path.home() / ".kube" / "config"]


def _document(file: Path) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{file} cannot be read: {type(error).__name__}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{file} is not a kubeconfig")
    return document


def _named(
    documents: list[tuple[Path, dict[str, Any]]], group: str, name: str, what: str
) -> tuple[Path, dict[str, Any]]:
    """The first entry of a name, and the file that it is in, as kubectl takes it."""
    names = []
    for file, document in documents:
        for entry in document.get(group) or ():
            if entry.get("name") == name:
                return file, entry.get(what) or {}
            names.append(str(entry.get("name")))
    raise UsageError(f"the kubeconfig has no {what} {name!r}; there are {', '.join(names) or 'none'}")


def _trust(cluster: dict[str, Any], home: Path) -> ssl.SSLContext:
    if cluster.get("insecure-skip-tls-verify"):
        trust = ssl.create_default_context()
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
        return trust
    data = cluster.get("certificate-authority-data")
    if data:
        return ssl.create_default_context(cadata=base64.b64decode(data).decode())
    file = cluster.get("certificate-authority")
    return ssl.create_default_context(cafile=str(home / file) if file else None)


def _identify(user: dict[str, Any], home: Path, trust: ssl.SSLContext) -> tuple[str, str]:
    """The bearer token and the Authorization header of a user; a client certificate goes into `trust`."""
    if "exec" in user:
        user = {**user, **_signed_in(user["exec"])}
    certificate = _pem(user, "client-certificate", home)
    key = _pem(user, "client-key", home)
    if certificate and key:
        _load(trust, certificate, key)
    if user.get("token"):
        return str(user["token"]), ""
    if user.get("tokenFile"):
        return (home / user["tokenFile"]).read_text().strip(), ""
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return "", f"Basic {base64.b64encode(pair).decode()}"
    return "", ""


def _pem(user: dict[str, Any], field: str, home: Path) -> bytes:
    if user.get(f"{field}-data"):
        return base64.b64decode(user[f"{field}-data"])
    return (home / user[field]).read_bytes() if user.get(field) else b""


def _load(trust: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Python loads keys from files alone, so the pair is one for a moment."""
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(certificate + b"\n" + key)
        pair.flush()
        trust.load_cert_chain(pair.name)


def _signed_in(program: dict[str, Any]) -> dict[str, Any]:
    """What a sign-in program of the kubeconfig gives: a token, or a certificate with its key."""
    version = program.get("apiVersion", "client.authentication.k8s.io/v1")
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    variables = {each["name"]: each["value"] for each in program.get("env") or ()}
    command = [str(program.get("command", "")), *map(str, program.get("args") or ())]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=EXEC_SECONDS,
            check=True,
        )
        status: dict[str, Any] = json.loads(done.stdout)["status"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise Fault(f"{command[0]}, which signs in to the cluster, failed: {type(error).__name__}") from None
    return {
        "token": status.get("token"),
        "client-certificate-data": _encoded(status.get("clientCertificateData")),
        "client-key-data": _encoded(status.get("clientKeyData")),
    }


def _encoded(pem: str | None) -> str:
    return base64.b64encode(pem.encode()).decode() if pem else ""
