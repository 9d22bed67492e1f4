"""Kinds that a fresh API server learns before it is asked about objects of them."""

import json
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from trainyard.controlplane.client import Client, Refused

DEFINITIONS = Path(__file__).parents[3] / ".tools" / "definitions"
"""Where tools/bootstrap.py puts the definitions of custom resources, a file a group, version and kind."""

_CONFLICT = 409
_GROUP_VERSION = re.compile(r"[a-z0-9.-]+/[a-z0-9]+\Z")
_KIND = re.compile(r"[A-Za-z0-9]+\Z")


def load_definitions(admin: Client, kinds: Iterable[tuple[str, str]]) -> None:
    """Teach the server the custom resources among `kinds`, pairs of apiVersion and kind.

    A kind that no definition is kept for stays unknown, and so does one whose name another definition holds already:
    the training operator's MPIJob and the MPI operator's are two definitions of one name. Fault where the server does
    not serve a kind in time.
    """
    for api_version, kind in sorted(set(kinds)):
        file = DEFINITIONS / f"{api_version.replace('/', '_')}_{kind}.json"
        if not _GROUP_VERSION.match(api_version) or not _KIND.match(kind) or not file.is_file():
            continue
        try:
            admin.create(json.loads(file.read_text()))
        except Refused as refused:
            if refused.code != _CONFLICT:
                raise
            continue
        admin.until(f"{kind} of {api_version}", partial(admin.serves, api_version, kind))
