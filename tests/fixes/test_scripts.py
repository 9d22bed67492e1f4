"""A command at the beginning of a script, however the script is written."""

from pathlib import Path

import pytest

from trainyard.fixes.apply import edited
from trainyard.lint.pipeline import lint
from trainyard.repository.discover import discover

JOB = """apiVersion: batch/v1
kind: Job
metadata: {{name: train, namespace: research}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: trainer
        image: registry.acme.io/trainer:1
        {command}
"""
MOUNTED = """apiVersion: v1
kind: ConfigMap
metadata: {name: scripts, namespace: research}
data:
  train.sh: |
    #!/bin/bash -x
    # The log stays on the claim.
    torchrun t.py | tee log
---
"""
PLACED = """command: [/s/train.sh]
        volumeMounts: [{{name: s, mountPath: /s}}]
      volumes: [{{name: s, configMap: {{name: scripts}}}}]
"""


def fixed(text: str, folder: Path) -> tuple[str, str]:
    """The file with the fix of RST008 made, and why it is not."""
    (folder / "job.yaml").write_text(text)
    outcome = lint(folder, discover(["job.yaml"], folder, folder), use_cache=False)
    (finding,) = [each for each in outcome.findings if each.rule == "RST008"]
    assert finding.fix is not None
    assert not finding.fix.safe
    return edited(text, finding.fix.edits), finding.fix.refused


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("command: [bash, -c, torchrun t.py | tee log]", "[bash, -c, set -o pipefail; torchrun t.py | tee log]"),
        ('command: [bash, -c, "torchrun t.py | tee log"]', '[bash, -c, "set -o pipefail; torchrun t.py | tee log"]'),
        ("command: [bash, -c, 'torchrun t.py | tee log']", "[bash, -c, 'set -o pipefail; torchrun t.py | tee log']"),
        (
            "command:\n        - bash\n        - -c\n        - |\n          cd /src\n          torchrun t.py | tee log",
            "- |\n          set -o pipefail\n          cd /src\n          torchrun t.py | tee log",
        ),
        (
            "command: [bash, -c]\n        args:\n        - |-\n\n          torchrun t.py; echo done",
            "- |-\n\n          set -e\n          torchrun t.py; echo done",
        ),
    ],
)
def test_the_option_comes_first(command: str, expected: str, tmp_path: Path) -> None:
    after, refused = fixed(JOB.format(command=command), tmp_path)

    assert (expected in after, refused) == (True, "")
    (tmp_path / "job.yaml").write_text(after)
    again = lint(tmp_path, discover(["job.yaml"], tmp_path, tmp_path), use_cache=False)
    assert "RST008" not in {finding.rule for finding in again.findings}


def test_it_stands_behind_the_line_that_names_the_shell(tmp_path: Path) -> None:
    after, _ = fixed(MOUNTED + JOB.format(command=PLACED.format()), tmp_path)

    assert "    #!/bin/bash -x\n    set -o pipefail\n    # The log stays on the claim.\n" in after


def test_a_folded_script_is_left_alone(tmp_path: Path) -> None:
    command = "command: [bash, -c]\n        args:\n        - >\n          torchrun t.py\n          | tee log\n"
    text = JOB.format(command=command)

    assert fixed(text, tmp_path) == (text, "its lines are joined when it is read: edit it by hand")
