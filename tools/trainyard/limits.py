"""Bounds on what a stranger's pull request may ask of this machine.

Each is far above what a training repository needs, and low enough that a laptop or a CI runner survives it.
"""

FILE_BYTES = 4 * 1024 * 1024
"""One file. The largest real manifests (CRDs, dashboards) stay under 2 MiB."""

DOCUMENT_DEPTH = 64
"""Nesting of one document. A pod in a CRD reaches about 20."""

NODES = 200_000
"""Nodes of one file after its aliases are expanded, as Kubernetes would see them."""

KUSTOMIZATIONS = 200
"""Folders that one job's kustomization may pull in, itself included."""

KUSTOMIZATION_DEPTH = 16
"""How deep kustomizations may name one another."""

RENDER_SECONDS = 60
"""Wall time for the rendering of one folder."""

RENDER_BYTES = 2 * 1024 * 1024 * 1024
"""Memory of one renderer process."""

SCRIPT_SECONDS = 20
"""Wall time of the renderer for one shell script, which it gives up itself after half a second of processor time."""

VALIDATION_SECONDS = 20
"""Wall time in which the API server's functions judge the objects of one target."""

RENDERED_BYTES = 64 * 1024 * 1024
"""What one folder may render to."""

OBJECTS = 5_000
"""Objects of one target: a job has twenty."""

FINDINGS = 5_000
"""Findings of one target, and of one rule a fifth of it: nobody reads more."""

SUPPRESSIONS = 1_000
"""Comments that silence a finding, in one file."""

MESSAGE_CHARACTERS = 4_000
"""One text of a finding."""

RELATED = 100
"""Other places that one finding names."""

JUDGEMENT_BYTES = 64 * 1024 * 1024
"""All that is told of one target."""

JUDGE_SECONDS = 60
"""Processor time for one step of the judgement of one target: its kustomizations, its rules. A job takes 0.1 s."""

JUDGE_BYTES = 2 * 1024 * 1024 * 1024
"""Memory of the process that judges, beyond what it starts with. A job takes 30 MiB."""

JUDGE_SILENCE = 900
"""Wall time in which that process has to come to a verdict, rendering and a busy machine included."""
