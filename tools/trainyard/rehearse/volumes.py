"""The volumes of pods as folders of this machine."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainyard.errors import Fault
from trainyard.objects.objects import Object
from trainyard.objects.quantity import quantity
from trainyard.rehearse.podplan import MadeUp, PodPlan, object_of, resource, secret_value, values_of
from trainyard.rehearse.state import unmount
from trainyard.rehearse.substitutes import Substitutes
from trainyard.workload.plain import count, entries, mapping, text

DEFAULT_SHARED_MEMORY = 64 << 20
"""Bytes of /dev/shm that a container runtime gives a pod which mounts nothing there."""
SHARED_MEMORY = "/dev/shm"
_OF_OBJECTS = ("configMap", "secret", "downwardAPI", "projected")


File = tuple[str, int]
"""A file's content and mode."""
Volume = Path | Mapping[str, File]
"""A folder of this machine, or the files of a volume that is made of objects, by their paths in it."""


@dataclass(slots=True)
class Volumes:
    """All volumes of a rehearsal. Folders are called by numbers: no name of a manifest becomes part of a path here."""

    folder: Path
    objects: Sequence[Object]
    namespace: str
    substitutes: Substitutes
    may_mount: bool
    """Whether this process may mount: without it a Memory volume is a plain folder."""
    made_up: list[MadeUp]
    invented: list[str] = field(default_factory=list)
    """Volumes that an empty folder stands in for."""
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)
    claims: dict[str, Path] = field(default_factory=dict)
    pods: dict[str, Path] = field(default_factory=dict)
    """The folder of each pod's own volumes."""
    made: int = 0
    """Folders so far."""

    def of_pod(self, plan: PodPlan) -> dict[str, Volume]:
        """Make the pod's volumes anew, and give them by name. Claims keep what they hold."""
        if plan.name in self.pods:
            _remove(self.pods[plan.name])
        own = self.pods[plan.name] = self._new()
        found = {
            name: self._make(plan, volume, own / str(index), name)
            for index, (name, volume) in enumerate(plan.volumes.items())
        }
        if not any(mount.path == SHARED_MEMORY for each in plan.containers for mount in each.mounts):
            found[""] = self._memory(own / "shared-memory", DEFAULT_SHARED_MEMORY)
        return found

    def claim(self, name: str) -> Path:
        """The folder of a claim, shared by all pods."""
        if name not in self.claims:
            self.claims[name] = self._new()
            self.claims[name].chmod(0o777)
        return self.claims[name]

    def claim_of(self, folder: Path) -> str | None:
        """The claim that a folder here is; None for a volume of another kind."""
        return next((name for name, path in self.claims.items() if path == folder), None)

    def host_key(self) -> str:
        """What sshd shows where the job brings no key of its own for that."""
        return self._ssh("")[0]

    def limit_claim(self, name: str, size: int) -> Path:
        """Give a claim a disk of `size` bytes of its own. Call it before any pod starts."""
        return self._memory(self.claim(name), size)

    def _new(self) -> Path:
        self.made += 1
        made = self.folder / "volumes" / str(self.made)
        made.mkdir(parents=True)
        return made

    def _make(self, plan: PodPlan, volume: Mapping[str, Any], own: Path, name: str) -> Volume:
        if isinstance(claim := volume.get("persistentVolumeClaim"), dict):
            return self.claim(text(claim.get("claimName")))
        if any(kind in volume for kind in _OF_OBJECTS):
            return self._files(plan, volume)
        empty = mapping(volume.get("emptyDir"))
        if "emptyDir" not in volume:
            kind = next((kind for kind in volume if kind != "name"), "")
            self.invented.append(f"{kind} {name}")
        if empty.get("medium") == "Memory":
            size = quantity(empty.get("sizeLimit"))
            return self._memory(own, None if size is None else int(size))
        own.mkdir()
        own.chmod(0o777)
        return own

    def _memory(self, path: Path, size: int | None) -> Path:
        path.mkdir(exist_ok=True)
        path.chmod(0o777)
        if not self.may_mount:
            return path
        options = "mode=0777" + ("" if size is None else f",size={size}")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Fault(f"{path} cannot be mounted: {done.stderr.strip()}")
        return path

    def _files(self, plan: PodPlan, volume: Mapping[str, Any]) -> dict[str, File]:
        """Files of a volume that is made of objects, by path: content and mode."""
        projected = volume.get("projected")
        if isinstance(projected, dict):
            files: dict[str, File] = {}
            for _, source in entries(projected.get("sources")):
                files |= self._of_source(plan, source, count(projected.get("defaultMode")))
            return files
        return self._of_source(plan, volume, None)

    def _of_source(self, plan: PodPlan, source: Mapping[str, Any], mode: int | None) -> dict[str, File]:
        for field_name, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            named = source.get(field_name)
            if isinstance(named, dict):
                name = text(named.get("name")) or text(named.get("secretName"))
                default = count(named.get("defaultMode"))
                items = list(entries(named.get("items")))
                held = self._held(kind, name, [text(item.get("key")) for _, item in items])
                whole = 0o644 if default is None and mode is None else (default or mode or 0o644)
                if not items:
                    return {key: (self.substitutes.file(key, value), whole) for key, value in held.items()}
                return {
                    text(item.get("path")): (
                        self.substitutes.file(text(item.get("key")), held[text(item.get("key"))]),
                        count(item.get("mode")) or whole,
                    )
                    for _, item in items
                    if text(item.get("key")) in held
                }
        if isinstance(down := source.get("downwardAPI"), dict):
            return {
                text(item.get("path")): (self._downward(plan, item), 0o644) for _, item in entries(down.get("items"))
            }
        if isinstance(token := source.get("serviceAccountToken"), dict):
            path = text(token.get("path")) or "token"
            self.made_up.append(MadeUp("ServiceAccount", "token", path))
            return {path: (secret_value("token", path), 0o644)}
        return {}

    def _held(self, kind: str, name: str, keys: Sequence[str]) -> dict[str, str]:
        """What an object holds; a Secret's missing keys are made up, those for ssh as real ones."""
        item = object_of(self.objects, kind, self.namespace, name)
        held = {} if item is None else values_of(item)
        if kind != "Secret":
            return held
        for key in keys:
            if key not in held:
                if key in ("ssh-privatekey", "ssh-publickey"):
                    held[key] = self._ssh(name)[key == "ssh-publickey"]
                else:
                    held[key] = secret_value(name, key)
                    self.made_up.append(MadeUp(kind, name, key))
        return held

    def _ssh(self, name: str) -> tuple[str, str]:
        """The private and public key that the controller of an MPI job would make."""
        if name not in self.keys:
            file = self.folder / f"key-{len(self.keys)}"
            command = ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-C", "", "-f", str(file)]
            try:
                subprocess.run(command, check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise Fault(f"ssh-keygen, which makes the keys of the job, does not run: {error}") from error
            self.keys[name] = file.read_text(), file.with_suffix(".pub").read_text()
        return self.keys[name]

    def _downward(self, plan: PodPlan, item: Mapping[str, Any]) -> str:
        if isinstance(reference := item.get("resourceFieldRef"), dict):
            name = text(reference.get("containerName"))
            source = next((each.source for each in plan.containers if each.name == name), None)
            return (resource(source, reference) or "") if source is not None else ""
        path = text(mapping(item.get("fieldRef")).get("fieldPath"))
        member = plan.member
        if path in ("metadata.labels", "metadata.annotations"):
            values = member.labels if path == "metadata.labels" else member.annotations
            return "".join(f'{key}="{value}"\n' for key, value in sorted(values.items()))
        return {"metadata.name": plan.name, "metadata.namespace": plan.namespace}.get(path, "")


def _remove(folder: Path) -> None:
    """Take away the volumes of a pod that is gone."""
    unmount(folder)
    shutil.rmtree(folder, ignore_errors=True)
