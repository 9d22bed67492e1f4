"""Whether mpirun refuses more processes than slots: MPI002 says what Open MPI does."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.rules.judging import judge

JOB = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: reduce, namespace: research}
spec:
  slotsPerWorker: 2
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: {spec: {containers: [{name: launcher, image: "registry.example.com/mpi:1"}]}}}
    Worker: {replicas: 1, template: {spec: {containers: [{name: worker, image: "registry.example.com/mpi:1"}]}}}
"""
OPTIONS = (
    "",
    "--oversubscribe",
    "-oversubscribe",
    "--nooversubscribe",
    "--map-by node",
    "--map-by slot:OVERSUBSCRIBE",
    "--map-by :oversubscribe",
    "--map-by slot:NOOVERSUBSCRIBE",
    "--map-by ppr:4:node",
    "--map-by ppr:4:node:OVERSUBSCRIBE",
    "--npernode 4",
    "--npernode 4 --oversubscribe",
    "-N 4",
    "--bind-to none",
    "--mca rmaps_base_oversubscribe 1",
    "--mca rmaps_base_oversubscribe true",
    "--mca rmaps_base_oversubscribe 0",
    "-mca rmaps_base_mapping_policy :OVERSUBSCRIBE",
    "--mca btl tcp,self",
    "--host localhost:4",
    "--use-hwthread-cpus",
)
VARIABLES = (
    {"OMPI_MCA_rmaps_base_oversubscribe": "1"},
    {"OMPI_MCA_rmaps_base_oversubscribe": "0"},
    {"OMPI_MCA_rmaps_base_mapping_policy": ":oversubscribe"},
    {"OMPI_MCA_rmaps_base_mapping_policy": "node"},
)
CASES = [*((options, dict[str, str]()) for options in OPTIONS), *(("", variables) for variables in VARIABLES)]


def _said(options: str, variables: dict[str, str], **spec: object) -> list[str]:
    job = yaml.safe_load(JOB)
    container = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    container["command"] = ["mpirun", "-np", "4", *options.split(), "true"]
    container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    job["spec"] |= spec
    return judge("MPI002", yaml.safe_dump(job))


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Open MPI (Debian: openmpi-bin)")
@pytest.mark.parametrize(("options", "variables"), CASES)
def test_what_is_said_is_what_open_mpi_does(tmp_path: Path, options: str, variables: dict[str, str]) -> None:
    (tmp_path / "hostfile").write_text("localhost slots=2\n")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    hosts = {"OMPI_MCA_orte_default_hostfile": str(tmp_path / "hostfile"), "TMPDIR": "/tmp"}
    done = subprocess.run(
        ["mpirun", "-np", "4", *options.split(), "true"],
        env={**os.environ, **root, **hosts, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 or "not enough slots" in done.stderr

    assert bool(_said(options, variables)) == (done.returncode != 0)


@pytest.mark.parametrize("implementation", ["Intel", "MPICH"])
def test_hydra_starts_as_many_as_it_is_asked_for(implementation: str) -> None:
    assert _said("", {}, mpiImplementation=implementation) == []
    assert len(_said("", {}, mpiImplementation="OpenMPI")) == 1


def test_slots_of_another_list_of_hosts_are_not_the_operators() -> None:
    assert _said("--hostfile /etc/site/hosts", {}) == []
    assert _said("--host localhost:2", {}) == []
    assert len(_said("--hostfile /etc/mpi/hostfile", {})) == 1
