from pathlib import Path

import pytest

from tests.rules.judging import judge
from tests.rules.telling import check_told, manifests


@pytest.mark.parametrize("file", manifests("storage"), ids=lambda file: file.stem)
def test_what_is_said_about_storage(file: Path) -> None:
    check_told(file, "STO")


SERVER = """\
apiVersion: {version}
kind: {kind}
metadata: {{name: chat, namespace: ml}}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - {{name: main, image: main, command: [{command}], resources: {{limits: {{nvidia.com/gpu: 8}}}}}}
"""


@pytest.mark.parametrize(
    ("kind", "command", "count"),
    [
        ("Deployment", "vllm, serve, llama-8b", 0),
        ("ReplicaSet", "python, -m, server", 0),
        ("Deployment", "torchrun, --nnodes=2, --nproc_per_node=8, train.py", 1),
        ("StatefulSet", "torchrun, --nnodes=2, --nproc_per_node=8, train.py", 1),
    ],
)
def test_pods_that_serve_lose_no_checkpoints(kind: str, command: str, count: int) -> None:
    said = judge("STO003", SERVER.format(version="apps/v1", kind=kind, command=command))
    assert len(said) == count
