"""Random strategic-merge patches on random objects, against the renderer: the same result to the last item's order."""

import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainyard.kustomize.replay import replay
from trainyard.objects.objects import Object
from trainyard.yaml.sources import Sources

RENDER = Path(__file__).parents[3] / ".tools" / "bin" / "render"
NAMES = ["a", "b", "c"]
CASES = 120


class Maker:
    """Makes objects, and patches with directives and nulls in them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.is_patch = False

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def name(self) -> str:
        return self.random.choice(NAMES)

    def some(self, make: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
        return [make(name) for name in self.random.sample(NAMES, self.random.randint(0, 3))]

    def env(self, name: str) -> dict[str, Any]:
        if self.is_patch and self.chance(0.2):
            return {"name": name, "$patch": "delete"}
        return {"name": name, "value": self.random.choice(["1", "x", 7] if self.is_patch else ["1", "x"])}

    def port(self, name: str) -> dict[str, Any]:
        port: dict[str, Any] = {"containerPort": 80 + NAMES.index(name)}
        if self.chance(0.4):
            port["protocol"] = self.random.choice(["TCP", "UDP"])
        return {**port, "name": name} if self.chance(0.5) else port

    def limits(self) -> dict[str, Any]:
        values = [1, "2", None] if self.is_patch else [1, "2"]
        return {"limits": {self.random.choice(["cpu", "memory", "nvidia.com/gpu"]): self.random.choice(values)}}

    def container(self, name: str) -> dict[str, Any]:
        if self.is_patch and self.chance(0.1):
            return {"name": name, "$patch": "delete"}
        made: dict[str, Any] = {"name": name}
        fields: dict[str, Callable[[], Any]] = {
            "image": self.name,
            "env": lambda: self.some(self.env),
            "ports": lambda: self.some(self.port),
            "command": lambda: [self.name() for _ in range(self.random.randint(0, 2))],
            "volumeMounts": lambda: self.some(lambda path: {"mountPath": f"/{path}", "name": self.name()}),
            "resources": self.limits,
        }
        for field, make in fields.items():
            if self.chance(0.4):
                made[field] = None if self.is_patch and self.chance(0.15) else make()
        return made

    def volume(self, name: str) -> dict[str, Any]:
        kinds: list[dict[str, Any]] = [{"emptyDir": {}}, {"configMap": {"name": "m"}}]
        if self.is_patch:
            kinds += [{"emptyDir": None, "configMap": {"name": "z"}}, {"$patch": "delete"}]
        return {"name": name, **self.random.choice(kinds)}

    def pod(self) -> dict[str, Any]:
        pod: dict[str, Any] = {"containers": [self.container(name) for name in self.random.sample(NAMES, 2)]}
        if self.chance(0.5):
            pod["volumes"] = self.some(self.volume)
        if self.chance(0.3):
            pod["tolerations"] = [{"key": self.name()}]
        if self.chance(0.4):
            replace = {"$patch": "replace"} if self.is_patch and self.chance(0.3) else {}
            pod["nodeSelector"] = {self.name(): "1", **replace}
        if self.chance(0.3):
            pod["imagePullSecrets"] = self.some(lambda name: {"name": name})
        return pod

    def object(self, kind: str, is_patch: bool) -> dict[str, Any]:
        self.is_patch = is_patch
        version = "batch/v1" if kind == "Job" else "kubeflow.org/v1"
        metadata: dict[str, Any] = {"name": "x", "labels": {self.name(): "1"}}
        if self.chance(0.2):
            metadata["finalizers"] = self.random.sample(NAMES, 2)
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"template": {"spec": self.pod()}}}


def trees(root: Path, seed: int) -> list[str]:
    """Write folders of an object and a patch or two each. Returns their names."""
    maker = Maker(seed)
    for i in range(CASES):
        folder = root / f"k{i}"
        folder.mkdir()
        kind = maker.random.choice(["Job", "Job", "MPIJob"])
        patches = [{"path": f"p{j}.yaml"} for j in range(maker.random.randint(1, 2))]
        files = {"o.yaml": maker.object(kind, False)}
        files |= {patch["path"]: maker.object(kind, True) for patch in patches}
        files["kustomization.yaml"] = {
            "resources": ["o.yaml"],
            "patches": patches,
            "namespace": "t",
            "namePrefix": "q-",
        }
        for name, data in files.items():
            (folder / name).write_text(json.dumps(data))
    return [f"k{i}" for i in range(CASES)]


@pytest.mark.parametrize("seed", range(3))
def test_random_patches(seed: int, tmp_path: Path) -> None:
    assert RENDER.exists(), "the renderer is not built: run ./tools/test once"
    names = "".join(f"{name}\n" for name in trees(tmp_path, seed))
    done = subprocess.run([RENDER, "-root", tmp_path], input=names, capture_output=True, text=True, timeout=60)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == CASES
    for answer in answers:
        assert answer["error"] == ""
        (rendered,) = answer["objects"]
        node = replay(tmp_path, answer["folder"], Sources(tmp_path)).node(Object.of(rendered, 0))
        assert node is not None
        assert node.plain() == rendered, answer["folder"]
