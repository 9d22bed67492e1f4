"""Manifests of strangers: pods that reach for the machine by every name that a manifest holds."""

import os
import subprocess
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.rehearse.rehearsing import HOME, TOOL
from trainyard.commandline import TRACEBACK

WITHOUT_A_WALL = """
from trainyard.rehearse import engine, programs, rehearsal
rehearsal.refuse = lambda *_: None
programs.missing_program = lambda *_: None
engine.SAME_FAILURES = 2
"""
"""Switches off what refuses a run before its pods start."""
PYTHON = HOME / ".tools" / "lint" / "bin" / "python"
IMAGE = f"registry.example.com/any@sha256:{'0' * 64}"
Json = dict[str, Any]


def script(text: str) -> list[str]:
    """A command that runs some Python, ends well whatever of it fails, and says so."""
    indented = textwrap.indent(textwrap.dedent(text), "    ")
    return ["python3", "-u", "-c", f"try:\n{indented}\nexcept OSError as error:\n    print(error)"]


def pod(command: list[str], mounts: list[Json] | None = None, volumes: list[Json] | None = None, **more: Any) -> Json:
    """The spec of a pod of one container."""
    container = {"name": "main", "image": IMAGE, "command": command, "volumeMounts": mounts or []}
    container |= more.pop("container", {})
    return {"restartPolicy": "Never", "containers": [container], "volumes": volumes or [], **more}


def job_set(pods: dict[str, Json]) -> list[Json]:
    """Pods of different kinds in one job."""
    jobs = [
        {"name": name, "template": {"spec": {"backoffLimit": 100, "template": {"spec": spec}}}}
        for name, spec in pods.items()
    ]
    metadata = {"name": "hostile", "namespace": "research"}
    return [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": metadata,
            "spec": {"replicatedJobs": jobs},
        }
    ]


def config_map(name: str, data: dict[str, str]) -> Json:
    """A ConfigMap."""
    metadata = {"name": name, "namespace": "research"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def claim_of(name: str, volume: str = "data") -> Json:
    """A volume on a claim."""
    return {"name": volume, "persistentVolumeClaim": {"claimName": name}}


def rehearse(
    folder: Path, objects: list[Json], *options: str, before: str = "", under: Sequence[str] = (), **variables: str
) -> Any:
    """Rehearse objects; the run's own folder is apart from all else.

    `before` is Python that is run in the tool before it starts, `under` words that come before its command line.
    """
    (folder / "job.yaml").write_text(yaml.safe_dump_all(objects))
    (folder / "tmp").mkdir(exist_ok=True)
    changed = f"{before}\nimport sys\nfrom trainyard.rehearse import command\nsys.exit(command.main(sys.argv[1:]))"
    tool = [PYTHON, "-I", "-c", changed] if before else [TOOL]
    done = subprocess.run(
        [*under, *tool, "job.yaml", *options],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), TRACEBACK: "1", **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "fault:" not in done.stderr, done.stderr
    assert "\nTraceback" not in f"\n{done.stderr}", done.stderr
    assert not list((folder / "tmp").iterdir())
    return done


EMPTY = {"name": "data", "emptyDir": {}}
LOOKS = script("""
    import os
    for folder, _, files in os.walk("/data"):
        for name in files:
            print(folder, name, open(os.path.join(folder, name), errors="replace").read())
    open("/data/planted", "w").write("planted")
""")
"""Prints what a volume holds, and plants a file."""


def hostile(home: Path) -> tuple[dict[str, Json], list[Json]]:
    """Pods that reach for a home by one name each, and what they need beside them."""
    outside = f"../../../../../../../../..{home}"
    made = f"/../oldroot{home}/made"
    data, name, thesis = {"name": "data", "mountPath": "/data"}, {"fieldPath": "metadata.name"}, f"{home}/thesis"
    claim = claim_of("checkpoints")
    linked = claim_of("links", "links")
    leaves = script(f"""
        import os
        os.symlink("{home}/.ssh", "/links/ssh")
        os.symlink("/oldroot{home}", "/links/root")
        os.symlink("/proc/1/root{home}", "/links/proc")
    """)
    on_links = {"name": "links", "mountPath": "/links"}
    links = {"name": "links", "image": IMAGE, "command": leaves, "volumeMounts": [on_links]}
    pods = {
        "sub-path-of-a-link": pod(
            LOOKS, [{"name": "links", "mountPath": "/data", "subPath": "ssh"}], [linked], initContainers=[links]
        ),
        "sub-path-absolute": pod(LOOKS, [{**data, "subPath": f"{home}/.ssh"}], [EMPTY]),
        "sub-path-upwards": pod(LOOKS, [{**data, "subPath": f"{outside}/.ssh"}], [EMPTY]),
        "sub-path-by-variable": pod(
            LOOKS, [{**data, "subPathExpr": "$(WHERE)"}], [EMPTY],
            container={"env": [{"name": "WHERE", "value": f"{outside}/.ssh"}]},
        ),
        "claim": pod(LOOKS, [data], [claim_of(f"{home}/.ssh")]),
        "claim-upwards": pod(LOOKS, [data], [claim_of(f"{outside}/.ssh")]),
        "host-path": pod(LOOKS, [data], [{"name": "data", "hostPath": {"path": f"{home}/.ssh"}}]),
        "item-path": pod(
            LOOKS, [data],
            [{"name": "data", "configMap": {
                "name": "keys", "items": [{"key": "key", "path": f"{outside}/.ssh/authorized_keys"}]}}],
        ),
        "item-path-absolute": pod(
            LOOKS, [data],
            [{"name": "data", "configMap": {"name": "keys", "items": [{"key": "key", "path": f"{home}/.bashrc"}]}}],
        ),
        "key": pod(LOOKS, [data], [{"name": "data", "configMap": {"name": "odd"}}]),
        "projected": pod(
            LOOKS, [data],
            [{"name": "data", "projected": {"sources": [
                {"serviceAccountToken": {"path": f"{outside}/.bashrc"}},
                {"downwardAPI": {"items": [{"path": f"{outside}/down", "fieldRef": name}]}}]}}],
        ),
        "volume": pod(LOOKS, [{**data, "name": thesis}], [{"name": thesis, "emptyDir": {}}]),
        "volume-upwards": pod(
            LOOKS, [{**data, "name": f"{outside}/thesis"}],
            [{"name": f"{outside}/thesis", "emptyDir": {"medium": "Memory"}}],
        ),
        "mount-path-root": pod(["sh", "-c", "true"], [{"name": "data", "mountPath": "//"}], [EMPTY]),
        "mount-path": pod(LOOKS, [{"name": "data", "mountPath": made}], [EMPTY]),
        "mount-below-a-link": pod(
            LOOKS,
            [on_links, {"name": "data", "mountPath": "/links/root/made"}],
            [linked, EMPTY],
            initContainers=[links],
        ),
        "mount-below-proc": pod(
            LOOKS,
            [on_links, {"name": "data", "mountPath": "/links/proc/made"}],
            [linked, EMPTY],
            initContainers=[links],
        ),
        "working-dir": pod(LOOKS, container={"workingDir": made}),
        "working-dir-of-a-link": pod(
            LOOKS, [on_links], [linked], initContainers=[links],
            container={"workingDir": "/links/root/made"},
        ),
        "host-name": pod(LOOKS, hostname=f"../..{home}/made", subdomain=f"../..{home}"),
        "home": pod(LOOKS, container={"env": [{"name": "HOME", "value": made}]}),
        "notes": pod(script(f"""
            import os
            for name in ("stack-hostile-1-0.txt", "joined-x-1.json", "joining-x-1.json"):
                os.symlink("{home}/joined-1.json", "/opt/rehearsal/notes/" + name)
            os.mkfifo("/opt/rehearsal/notes/joined-pipe-1.json")
            print(os.listdir("/opt/rehearsal/notes"))
        """)),
        "dataset": pod(
            LOOKS, [data], [claim],
            container={"env": [
                {"name": "TRAINER_DATASET", "value": f"/data/{outside}/dataset"},
                {"name": "TRAINER_CHECKPOINT_DIR", "value": "/data"}, {"name": "TRAINER_RUN", "value": outside}]},
        ),
    }  # fmt: skip
    odd = {f"{outside}/.bashrc": "planted", "../made": "planted", f"{home}/made": "planted"}
    return pods, [config_map("keys", {"key": "planted"}), config_map("odd", odd)]
