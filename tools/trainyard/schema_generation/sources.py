"""The pinned modules that own the schemas, downloaded by Go and verified against go.sum."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from trainyard.errors import Fault

_DOWNLOAD_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Sources:
    """What schemas/sources.yaml lists."""

    kubernetes_module: str
    openapi_folder: str
    group_versions: tuple[str, ...]
    """As in apiVersion: v1, batch/v1."""
    custom_resources: tuple[tuple[str, str], ...]
    """(module, file of CustomResourceDefinitions in it)."""
    filled: frozenset[str]
    """Required fields that a webhook fills where they are missing: JobSet.spec.failurePolicy.rules[].name."""

    @property
    def modules(self) -> tuple[str, ...]:
        """Every module that is read, once."""
        return tuple(dict.fromkeys([self.kubernetes_module, *(module for module, _ in self.custom_resources)]))


def read_sources(file: Path) -> Sources:
    """Read sources.yaml. Fault where it does not have the shape that its comments describe."""
    try:
        data = yaml.safe_load(file.read_text())
        kubernetes = data["kubernetes"]
        return Sources(
            kubernetes_module=kubernetes["module"],
            openapi_folder=kubernetes["folder"],
            group_versions=tuple(kubernetes["groupVersions"]),
            custom_resources=tuple((s["module"], path) for s in data["customResources"] for path in s["files"]),
            filled=frozenset(field for s in data["customResources"] for field in s.get("filledByWebhook", ())),
        )
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise Fault(f"{file} cannot be read as a list of schema sources: {error!r}") from error


def download(go: str, pins: Path, modules: tuple[str, ...]) -> Mapping[str, Path]:
    """Folder of each module at the version that `pins`/go.mod names.

    Go verifies each against `pins`/go.sum. Fault where a module is not pinned, does not download or does not match,
    or where another module needs a higher version of it: Go would take that one without a word.
    """
    pinned, text = (pins / "go.sum").read_bytes(), (pins / "go.mod").read_text()
    # Go adds to go.sum what is missing there, so it works on a copy.
    with tempfile.TemporaryDirectory(prefix="trainyard-schemas-") as folder:
        shutil.copy(pins / "go.mod", folder)
        copy = Path(shutil.copy(pins / "go.sum", folder))
        try:
            done = subprocess.run(
                [go, "mod", "download", "-json"],
                cwd=folder,
                env={**os.environ, "GOWORK": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"},
                capture_output=True,
                text=True,
                timeout=_DOWNLOAD_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Fault(f"the schema sources do not download: {error}") from error
        entries = _json_stream(done.stdout)
        failures = [entry["Error"] for entry in entries if "Error" in entry]
        if failures or done.returncode:
            reason = _first_line("\n".join([*failures, done.stderr]))
            raise Fault(f"the schema sources do not download: {reason}")
        for entry in entries:
            wanted = re.search(rf"^\s*(?:require )?{re.escape(entry['Path'])} (v\S+)", text, re.MULTILINE)
            if wanted and wanted[1] != entry["Version"]:
                said = f"{entry['Path']} {wanted[1]}, but another module needs {entry['Version']}"
                raise Fault(f"{pins / 'go.mod'} pins {said}")
        # Of a module that nobody builds from, Go is content with the checksum of its go.mod.
        known = pinned.decode().splitlines()
        missing = [each["Path"] for each in entries if f"{each['Path']} {each['Version']} {each['Sum']}" not in known]
        if missing or copy.read_bytes() != pinned:
            command = " ".join(["go mod download", *missing])
            raise Fault(f"{pins / 'go.sum'} does not pin all of go.mod: run `{command}` there and review it")
    folders = {entry["Path"]: Path(entry["Dir"]) for entry in entries}
    if unpinned := [module for module in modules if module not in folders]:
        raise Fault(f"{pins / 'go.mod'} does not pin {', '.join(unpinned)}")
    return folders


def _first_line(text: str) -> str:
    """What Go says first that is no progress."""
    lines = (line.strip() for line in text.splitlines() if not line.startswith("go: downloading"))
    return next(filter(None, lines), "go gave no reason")


def _json_stream(text: str) -> list[dict[str, str]]:
    decoder, documents = json.JSONDecoder(), []
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        documents.append(document)
        text = text[end:]
    return documents
