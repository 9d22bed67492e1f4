"""A rehearsed job reads and changes nothing of the machine but the run's own folder, whatever its manifests name.

Two walls: what the API server refuses is refused before anything is made, and what gets past that finds nothing. The
second is tried with the first one taken away.
"""

import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.rehearse.host import SECRET, Host, host
from tests.rehearse.hostile import EMPTY, WITHOUT_A_WALL, Json, claim_of, hostile, job_set, pod, rehearse, script
from trainyard.errors import InputError
from trainyard.rehearse.load import load
from trainyard.rehearse.refused import refuse
from trainyard.rehearse.scale import Scale

pytestmark = [pytest.mark.rehearsal, pytest.mark.root, pytest.mark.drawn]


@pytest.fixture
def reviewer() -> Iterator[Host]:
    """The home of the person who rehearses a stranger's pull request."""
    with host() as found:
        yield found


@pytest.mark.claim("pods-find-nothing")
def test_no_name_of_a_manifest_leads_to_the_machine(tmp_path: Path, reviewer: Host) -> None:
    pods, beside = hostile(reviewer.home)

    done = rehearse(tmp_path, [*job_set(pods), *beside], "--once", before=WITHOUT_A_WALL)

    assert reviewer.touched() == [], done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert done.returncode in (0, 1), done.stderr


ALLOWED = {
    "sub-path-of-a-link",
    "host-path",
    "mount-path-root",
    "mount-path",
    "mount-below-a-link",
    "mount-below-proc",
    "sub-path-by-variable",
    "working-dir",
    "working-dir-of-a-link",
    "home",
    "notes",
    "dataset",
}
"""What the API server takes, and what only the second wall is for."""


@pytest.mark.claim("names-are-refused-first")
def test_what_the_api_server_refuses_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    pods, beside = hostile(Path("/home/me"))
    refused = set()
    for name, spec in pods.items():
        file = tmp_path / f"{name}.yaml"
        file.write_text(
            yaml.safe_dump_all([*job_set({name: spec}), *(beside if name.startswith(("key", "item")) else [])])
        )
        loaded = load(tmp_path, file.name, tmp_path, Scale(), tmp_path / "work")
        try:
            refuse(loaded.workload, loaded.origin, loaded.name)
        except InputError as error:
            refused.add(name if error.line else f"{name} without its place")

    assert refused == set(pods) - ALLOWED


FACTS = script(
    """
    import ctypes, json, os, time
    library = ctypes.CDLL(None)
    def remounted(path):
        return library.mount(None, path.encode(), None, 32 | 4096 | 2 | 4 | 0x200000, None) == 0
    def planted(path):
        try:
            open(path + "/planted", "w")
            return True
        except OSError:
            return False
    LEFT = ["/opt/rehearsal/volumes/0", "/opt/rehearsal/ready/0"]
    places = ["/usr", "/opt/trainer", "/opt/trainyard/trainer", "/opt/rehearsal/site", "/sys"]
    etc = {}
    for folder, _, files in os.walk("/etc"):
        for name in files:
            try:
                etc[os.path.join(folder, name)] = open(os.path.join(folder, name), errors="replace").read(1 << 16)
            except OSError:
                etc[os.path.join(folder, name)] = ""
    told = {
        "user": os.getuid(),
        "remounted": [path for path in places if remounted(path)],
        "planted": [path for path in places if planted(path)],
        "shadows": [path for path in etc if "shadow" in path or "host_rsa" in path],
        "secrets": [path for path, text in etc.items() if "SECRET" in text],
        "probed": open("/data/environment").read(),
        "open": [os.readlink(f"/proc/self/fd/{n}") for n in range(3, 100) if os.path.exists(f"/proc/self/fd/{n}")],
        "left": [path for path in LEFT if os.path.isdir(path) and os.listdir(path)],
    }
    print("FACTS" + json.dumps(told))
    time.sleep(2)
""".replace("SECRET", SECRET)
)
PROBED = {
    "startupProbe": {"exec": {"command": ["sh", "-c", "env; env > /data/environment"]}, "failureThreshold": 30},
    "command": ["sh", "-c", 'until [ -s /data/environment ]; do sleep 0.1; done; exec "$@"', "sh", *FACTS],
}
OVER_ETC = """
for name in shadow shadow- gshadow environment fstab ssh/ssh_host_rsa_key; do
    [ -e "/etc/$name" ] && mount --bind "$CANARY" "/etc/$name"
done
exec "$@"
"""
"""Puts a secret over files of /etc, in a namespace of mounts of its own."""


def facts_of(folder: Path, under: Sequence[str]) -> tuple[dict[int, Json], list[str]]:
    """What containers of root and of another user find, by user, and the users that this machine sees them as."""
    pods = {
        f"user-{user}": pod(
            FACTS,
            [{"name": "data", "mountPath": "/data"}],
            [EMPTY],
            container=dict(PROBED),
            securityContext={"runAsUser": user},
        )
        for user in (0, 1000)
    }
    (folder / "canary").write_text(SECRET)
    seen: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        variables = {"CANARY": str(folder / "canary"), "TOKEN": SECRET}
        running = pool.submit(rehearse, folder, job_set(pods), "--once", under=under, **variables)
        while not running.done():
            seen += users_of("FACTS")
            time.sleep(0.05)
        done = running.result()
    assert done.returncode == 0, done.stdout + done.stderr
    found = [json.loads(line.partition("FACTS")[2]) for line in done.stderr.splitlines() if "FACTS{" in line]
    return {each["user"]: each for each in found}, seen


def users_of(marker: str) -> list[str]:
    """The users of processes whose command line holds a text, as this machine sees them."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if marker in Path(f"/proc/{entry}/cmdline").read_text():
                status = Path(f"/proc/{entry}/status").read_text()
                found += [line.split()[1] for line in status.splitlines() if line.startswith("Uid:")]
    return found


SOMEBODY = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")


@pytest.mark.claim("pods-find-nothing")
@pytest.mark.parametrize("somebody", [(), SOMEBODY], ids=["root", "somebody"])
def test_a_container_is_nobody_and_finds_nothing(tmp_path: Path, somebody: Sequence[str]) -> None:
    found, seen = facts_of(tmp_path, ("unshare", "--mount", "sh", "-c", OVER_ETC, "sh", *somebody))

    assert set(found) == {0, 1000}
    assert seen
    assert somebody or "0" not in seen, "a container's process is root of this machine"
    for each in found.values():
        assert (each["remounted"], each["planted"], each["shadows"], each["secrets"]) == ([], [], [], [])
        assert each["left"] == []
        assert all(name.startswith("/opt/rehearsal/notes/") for name in each["open"])
        assert SECRET not in each["probed"]
        assert "TRAINYARD_REHEARSAL" in each["probed"]


LISTENS = """
import socket, sys
for host, port in (("127.0.0.1", int(sys.argv[1])), (sys.argv[2], int(sys.argv[1]))):
    try:
        socket.create_connection((host, port), 2)
        print("REACHED", host)
    except OSError as error:
        print(host, error)
"""


@pytest.mark.claim("loopback-is-said", "pods-reach-nothing")
@pytest.mark.parametrize("network", [(), ("--loopback",)], ids=["strict", "loopback"])
def test_no_pod_reaches_what_listens_on_this_machine(tmp_path: Path, network: Sequence[str]) -> None:
    with socket.create_server(("", 0)) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        with suppress(OSError):  # a machine without a route has no other address
            any_socket.connect(("192.0.2.1", 9))
        command = ["python3", "-c", LISTENS, str(server.getsockname()[1]), any_socket.getsockname()[0]]
        done = rehearse(tmp_path, job_set({"dials": pod(command)}), "--once", *network)

    assert done.returncode == 0, done.stderr
    assert "REACHED" not in done.stderr


LINKS = """
import json, os, sys, time
os.umask(0)
os.makedirs("/checkpoints/run", exist_ok=True)
os.chdir("/checkpoints/run")
if not os.path.lexists("/checkpoints/.filler"):
    os.symlink("HOME/thesis/chapter.tex", "/checkpoints/.filler")
    for name in ("done.json", "step-000000006"):
        os.symlink("HOME/.bashrc", name)
    for step in (2, 4):
        os.mkdir(f"step-{step:09}")
        os.symlink("HOME/thesis", f"step-{step:09}/thesis")
    os.symlink("HOME/thesis", "tensorflow")
for step in range(1, 60):
    print(json.dumps({"step": step, "loss": 1 / step}), flush=True)
    time.sleep(0.01)
"""


@pytest.mark.claim("pods-find-nothing")
@pytest.mark.parametrize("options", [(), ("--chaos", "fill-disk@3"), ("--chaos", "slow-disk=1Mi@3")], ids=str)
def test_links_in_a_claim_lead_the_next_run_nowhere(tmp_path: Path, reviewer: Host, options: Sequence[str]) -> None:
    variables = {"TRAINER_CHECKPOINT_DIR": "/checkpoints", "TRAINER_RUN": "run", "TRAINER_DATASET": "/checkpoints/run"}
    env = [{"name": name, "value": value} for name, value in variables.items()]
    claim = claim_of("checkpoints")
    command = ["python3", "-c", LINKS.replace("HOME", str(reviewer.home)), "trainer"]  # whose checkpoints are known
    spec = pod(command, [{"name": "data", "mountPath": "/checkpoints"}], [claim], container={"env": env})

    done = rehearse(tmp_path, job_set({"links": spec}), *options)

    assert reviewer.touched() == [], done.stderr
    assert "step 4" in done.stdout or options, done.stdout + done.stderr


def test_a_log_is_written_through_no_link(tmp_path: Path, reviewer: Host) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "hostile-says-0-0.main.log").symlink_to(reviewer.home / ".bashrc")

    done = rehearse(tmp_path, job_set({"says": pod(["sh", "-c", "echo planted"])}), "--once", "--logs", "logs")

    assert (done.returncode, reviewer.touched()) == (2, [])
    assert "cannot be written: too many levels of symbolic links" in done.stderr


ON_A_SMALL_DISK = (
    "unshare", "--mount", "sh", "-c",
    'mount -t tmpfs -o size=9M tmpfs tmp && head -c 8500000 /dev/zero >tmp/full && exec "$@"', "sh",
)  # fmt: skip
FORKS = """
for number in range(500):
    if not os.fork():
        time.sleep(60)
"""


@pytest.mark.claim("rehearsal-is-bounded")
@pytest.mark.parametrize(
    ("bound", "takes", "code", "message"),
    [
        ("PROCESSES = 60", FORKS, 1, "Resource temporarily unavailable"),
        ("LARGEST_FILE = 1 << 20", "open('/tmp/large', 'wb').write(bytes(1 << 22))", 1, "File too large"),
        ("_OF_MEMORY = 0.01", "held = b'x' * (1 << 30); time.sleep(60)", 2, "was stopped: its pods took "),
        ("LEFT_ON_DISK = 1 << 60", "time.sleep(60)", 2, "are left on the disk of"),
    ],
    ids=["processes", "file", "memory", "disk"],
)
def test_what_a_job_takes_of_the_machine_is_bounded(
    tmp_path: Path, bound: str, takes: str, code: int, message: str
) -> None:
    command = ["python3", "-c", f"import os, signal, time\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n{takes}"]
    before = f"from trainyard.rehearse import bounds, engine\nbounds.{bound}\nengine.SAME_FAILURES = 1"
    under = ON_A_SMALL_DISK if "DISK" in bound else ()

    done = rehearse(tmp_path, job_set({"takes": pod(command)}), "--once", before=before, under=under)

    assert done.returncode == code, done.stdout + done.stderr
    assert message in done.stderr
    assert not users_of(takes)
