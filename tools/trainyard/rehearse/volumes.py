"""The volumes of pods as folders of this machine."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainyard.errors import Fault
from trainyard.objects import Object
from trainyard.quantity import quantity
from trainyard.rehearse.podplan import MadeUp, PodPlan, object_of, resource, secret_value, values_of
from trainyard.rehearse.substitutes import Substitutes
from trainyard.workload.plain import count, entries, mapping, text

DEFAULT_SHARED_MEMORY = 64 << 20
"""Bytes of /dev/shm that a container runtime gives a pod which mounts nothing there."""
SHARED_MEMORY = "/dev/shm"
_NOBODY = 65534


@dataclass(slots=True)
class Volumes:
    """All volumes of a rehearsal, below one folder."""

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

    def of_pod(self, plan: PodPlan) -> dict[str, Path]:
        """Make the pod's volumes anew, and give their folders by name. Claims keep what they hold."""
        found = {}
        for name, volume in plan.volumes.items():
            found[name] = self._make(plan, name, volume)
        if not any(mount.path == SHARED_MEMORY for each in plan.containers for mount in each.mounts):
            shared = self.folder / "pods" / plan.name / ".shared-memory"
            self._clear(shared)
            found[""] = self._memory(shared, DEFAULT_SHARED_MEMORY)
        return found

    def claim(self, name: str) -> Path:
        """The folder of a claim, shared by all pods."""
        path = self.folder / "claims" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def limit_claim(self, name: str, size: int) -> Path:
        """Give a claim a disk of `size` bytes of its own. Call it before any pod starts."""
        return self._memory(self.claim(name), size)

    def _make(self, plan: PodPlan, name: str, volume: Mapping[str, Any]) -> Path:
        own = self.folder / "pods" / plan.name / name
        own.mkdir(parents=True, exist_ok=True)
        if isinstance(claim := volume.get("persistentVolumeClaim"), dict):
            return self.claim(text(claim.get("claimName")))
        if isinstance(empty := volume.get("emptyDir"), dict):
            self._clear(own)
            size = quantity(empty.get("sizeLimit"))
            if empty.get("medium") == "Memory":
                return self._memory(own, None if size is None else int(size))
            return own
        for key, value in self._files(plan, volume).items():
            file = own / key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            file.write_text(value[0])
            self._hand_over(plan, file, value[1])
        if not any(kind in volume for kind in _WITH_FILES):
            kind = next((kind for kind in volume if kind != "name"), "")
            self.invented.append(f"{kind} {name}")
        return own

    def _memory(self, path: Path, size: int | None) -> Path:
        path.mkdir(parents=True, exist_ok=True)
        if not self.may_mount or os.path.ismount(path):
            return path
        options = "mode=1777" + ("" if size is None else f",size={size}")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Fault(f"{path} cannot be mounted: {done.stderr.strip()}")
        return path

    def _hand_over(self, plan: PodPlan, file: Path, mode: int) -> None:
        """Give a file the owner that the kubelet gives it: root, and the group that fsGroup names.

        A container of another user sees a stranger's file, which it may read as its group may.
        """
        stranger = any(each.user for each in plan.containers)
        if stranger and os.geteuid() == 0:
            os.chown(file, _NOBODY, _NOBODY)
            grouped = mapping(plan.member.pod_set.spec.get("securityContext")).get("fsGroup") is not None
            mode |= 0o444 if grouped else 0
        elif stranger:
            mode &= 0o700  # the file is the container's own here, and ssh wants such a key to itself
        file.chmod(mode)

    def _clear(self, path: Path) -> None:
        """Take away what an earlier pod left."""
        if os.path.ismount(path):
            subprocess.run(["umount", "--lazy", path], check=False)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        path.chmod(0o1777)

    def _files(self, plan: PodPlan, volume: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
        """Files of a volume that is made of objects, by path: content and mode."""
        projected = volume.get("projected")
        if isinstance(projected, dict):
            files: dict[str, tuple[str, int]] = {}
            for _, source in entries(projected.get("sources")):
                files |= self._of_source(plan, source, count(projected.get("defaultMode")))
            return files
        return self._of_source(plan, volume, None)

    def _of_source(self, plan: PodPlan, source: Mapping[str, Any], mode: int | None) -> dict[str, tuple[str, int]]:
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
            file = self.folder / f"key-of-{name}"
            command = ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-C", name, "-f", str(file)]
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


_WITH_FILES = ("configMap", "secret", "downwardAPI", "projected", "emptyDir", "persistentVolumeClaim")
