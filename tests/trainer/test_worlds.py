"""The real launchers in two pods that reach each other come to what tests/worlds.py says, and the linter.

A pod is a network namespace with an address of its own; it asks for no rights but those of a user namespace.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.by_day import marks
from tests.worlds import APART, HOSTS, OPERATED_HOSTS, PAIRS, PYTORCH_JOB, REFUSED, TOGETHER, WAITS, Pair

pytestmark = pytest.mark.torch

PROGRAM = """
import os, pathlib
own = [os.environ.get(name) or os.environ.get(mpi) for name, mpi in (
    ("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"))]
pathlib.Path(__file__).with_name(f"world-{os.environ['POD']}-{os.getpid()}").write_text("{} {}".format(*own))
"""
PODS = """
set -e
unshare --net --uts sh -c 'hostname pod-0; exec sleep infinity' & one=$!
unshare --net --uts sh -c 'hostname pod-1; exec sleep infinity' & two=$!
while [ "$(readlink /proc/$one/ns/net)" = "$(readlink /proc/self/ns/net)" ] ||
      [ "$(readlink /proc/$two/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
ip link add eth0 netns $one type veth peer name eth0 netns $two
for pod in "$one 10.9.0.1" "$two 10.9.0.2"; do
  set -- $pod
  nsenter --net=/proc/$1/ns/net sh -c "ip link set lo up; ip addr add $2/24 dev eth0; ip link set eth0 up"
done
mount --bind "$FOLDER/hosts" /etc/hosts
mount --bind "$FOLDER/resolv.conf" /etc/resolv.conf
for index in 0 1; do
  pid=$one; [ $index = 1 ] && pid=$two
  (set +e; . "$FOLDER/$index.env"
   nsenter --net=/proc/$pid/ns/net --uts=/proc/$pid/ns/uts timeout "$LIMIT" bash -c "$COMMAND" \\
    > "$FOLDER/$index.log" 2>&1; echo $? > "$FOLDER/$index.code") &
  pods="$pods $!"
done
wait $pods
kill $one $two
"""
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
LIMIT = 240
"""Seconds for launchers that come to an end by themselves, however busy the machine is."""
PATIENCE = 90
"""Seconds after which pods that wait for each other count as waiting."""


def environment(pair: Pair, index: int) -> dict[str, str]:
    """The variables of one of the pods: those that the linter knows, and those of its place among them."""
    operated = pair.kind == PYTORCH_JOB
    sets = pair.workload().pod_sets
    container = sets[index if operated else 0].containers[0]
    found = {name: variable.value for name, variable in container.env.items() if variable.value is not None}
    own = {"JOB_COMPLETION_INDEX": str(index), "POD": str(index)}
    return found | own | ({"RANK": str(index), "PET_NODE_RANK": str(index)} if operated else {})


def comes_to(pair: Pair, folder: Path) -> str:
    """What the launchers make of two pods."""
    names = OPERATED_HOSTS if pair.kind == PYTORCH_JOB else HOSTS
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n10.9.0.1 {names[0]} pod-0\n10.9.0.2 {names[1]} pod-1\n")
    (folder / "resolv.conf").write_text("")
    (folder / "world.py").write_text(PROGRAM)
    for index in (0, 1):
        lines = (f"export {name}={json.dumps(value)}\n" for name, value in environment(pair, index).items())
        (folder / f"{index}.env").write_text("".join(lines))
    hostfile = folder / "hostfile"
    hostfile.write_text("".join(f"{name} slots=2\n" for name in names))
    command = pair.command.replace("deepspeed ", f"deepspeed --hostfile {hostfile} ") if pair.hostfile else pair.command
    own = {
        "FOLDER": str(folder),
        "COMMAND": command,
        "LIMIT": str(PATIENCE if pair.comes_to == WAITS else LIMIT),
        "PATH": PATH,
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": "1",
    }
    isolated = ["unshare", "--user", "--map-root-user", "--net", "--mount", "bash", "-c", PODS]
    subprocess.run(isolated, env=os.environ | own, cwd=folder, check=True, capture_output=True)
    return verdict(folder)


def verdict(folder: Path) -> str:
    """What the ranks of both pods say of their world, each in a file: in a log that ranks share, lines may mix."""
    logs = [(folder / f"{index}.log").read_text() for index in (0, 1)]
    worlds = [{said.read_text() for said in folder.glob(f"world-{index}-*")} for index in (0, 1)]
    codes = [int((folder / f"{index}.code").read_text()) for index in (0, 1)]
    if worlds[0] and worlds[1]:
        return APART if worlds[0] & worlds[1] else TOGETHER
    return WAITS if 124 in codes else REFUSED if any(codes) else "\n".join(logs)


BY_DAY = ("torchrun", "deepspeed", "mpirun", "python-of-an-operator")
"""What launchers do changes with the locks alone: the others are tried at night."""


@pytest.mark.parametrize(
    "pair",
    [pytest.param(pair, id=name, marks=marks(name, BY_DAY)) for name, pair in PAIRS.items()],
)
def test_real_launchers_make_of_two_pods_what_is_said(pair: Pair, tmp_path: Path) -> None:
    if shutil.which(pair.command.split()[0], path=PATH) is None:
        pytest.skip(f"{pair.command.split()[0]} is not installed")

    assert comes_to(pair, tmp_path) == pair.comes_to
