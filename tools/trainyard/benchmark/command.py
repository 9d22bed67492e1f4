"""One step of the chain: nodes, create, collect, assemble. base/benchmark/workflow-template.yaml runs them in order."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainyard import commandline
from trainyard.errors import EXIT_CLEAN, EXIT_FINDINGS, Fault, InputError, UsageError
from trainyard.home import HOME

_EXAMPLES = """\
examples, in the order of the chain:
  python -m trainyard.benchmark nodes --facts clusters/gpu-east/facts/cluster.yaml --out RUN
  python -m trainyard.benchmark create clusters/gpu-east/benchmark/gpt-3 --name RUN-gpt-3 --out RUN/gpt-3 \\
      --owner WORKFLOW --owner-uid UID
  python -m trainyard.benchmark collect RUN/gpt-3 --prometheus http://prometheus-operated.monitoring:9090
  python -m trainyard.benchmark assemble RUN --name RUN --out runs/RUN.json

on this machine, without a cluster:
  .tools/lint/bin/python -m trainyard.benchmark rehearse gpu-east --name slowed --slow 1=0.5 --out results

exit codes:
  0    done
  1    a node is not fit to be measured
  2    bad usage or input
  3    a fault: the API server or Prometheus does not answer
  130  interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one step. Returns its exit code."""
    return commandline.run("benchmark", lambda: _run(_parser().parse_args(arguments)))


def _parser() -> argparse.ArgumentParser:
    parser = commandline.Parser(
        prog="python -m trainyard.benchmark",
        description=__doc__,
        epilog=_EXAMPLES,
    )
    steps = parser.add_subparsers(dest="step", metavar="STEP", required=True)
    nodes = steps.add_parser("nodes", help="wait for tuned nodes, check them, and say what they are")
    nodes.add_argument("--facts", required=True, type=Path, metavar="FILE", help="the cluster's facts")
    nodes.add_argument("--no-tuning", action="store_true", help="the cluster has no node-tuning to wait for")
    nodes.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="folder of this run")
    create = steps.add_parser("create", help="make what a job needs, and leave the job to the next step")
    create.add_argument("job", type=Path, metavar="FOLDER", help="job folder")
    create.add_argument("--name", required=True, help="name of the job in this run")
    create.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="folder of this job of this run")
    create.add_argument("--parameters", type=Path, metavar="FOLDER", help="where the next step finds the manifest")
    create.add_argument("--owner", required=True, metavar="NAME", help="the workflow")
    create.add_argument("--owner-uid", required=True, metavar="UID")
    create.add_argument("--kustomize", default="kustomize", metavar="PROGRAM")
    collect = steps.add_parser("collect", help="collect what a job measured")
    collect.add_argument("out", type=Path, metavar="FOLDER", help="folder of this job of this run")
    collect.add_argument("--prometheus", metavar="URL", help="where node and rank metrics are")
    collect.add_argument("--board", type=Path, metavar="FOLDER", help="TensorBoard's event files")
    assemble = steps.add_parser("assemble", help="put the run together")
    assemble.add_argument("folder", type=Path, metavar="FOLDER", help="folder of this run")
    assemble.add_argument("--name", required=True, help="name of the run")
    assemble.add_argument("--out", required=True, type=Path, metavar="FILE", help="file to write")
    rehearse = steps.add_parser("rehearse", help="the whole chain on this machine, on CPUs")
    rehearse.add_argument("cluster", metavar="CLUSTER", help="whose chain and jobs")
    rehearse.add_argument("--name", required=True, help="name of the run")
    rehearse.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="where results go")
    rehearse.add_argument("--nodes", type=int, default=2, metavar="N", help="nodes of a rank each (default: 2)")
    rehearse.add_argument("--slow", metavar="NODE=PART", help="let a node compute only a part of the time: 1=0.5")
    for step in (nodes, create, collect):
        step.add_argument("--context", metavar="NAME", help="context of a kubeconfig (default: this pod's cluster)")
    return parser


def _run(options: argparse.Namespace) -> int:
    from trainyard.controlplane.client import Refused

    steps = {"nodes": _nodes, "create": _create, "collect": _collect, "assemble": _assemble, "rehearse": _rehearse}
    try:
        return steps[options.step](options)
    except Refused as error:
        raise Fault(str(error)) from None


def _client(options: argparse.Namespace) -> Any:
    from trainyard.benchmark.inside import client_inside
    from trainyard.controlplane.kubeconfig import client_of

    return client_of(options.context) if options.context else client_inside()


def _nodes(options: argparse.Namespace) -> int:
    import yaml

    from trainyard.benchmark.nodes import await_tuning, benchmark_nodes, faults, fingerprint

    try:
        facts = yaml.safe_load(options.facts.read_text(encoding="utf-8"))["spec"]
        labels, gpus = facts["nodeSelector"], facts["node"]["gpus"]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(options.facts)) from None
    except (yaml.YAMLError, KeyError, TypeError):
        raise InputError("are not the facts of a cluster", str(options.facts)) from None
    client = _client(options)
    if not options.no_tuning:
        commandline.say(f"{await_tuning(client)} nodes are tuned")
    found = benchmark_nodes(client, labels)
    wrong = faults(found, gpus) if found else ["no node takes training pods"]
    for line in wrong:
        commandline.say(line)
    if wrong:
        return EXIT_FINDINGS
    _write(options.out / "nodes.json", {"fingerprint": fingerprint(found), "nodes": [_name(node) for node in found]})
    commandline.say(f"{len(found)} nodes are whole")
    return EXIT_CLEAN


def _create(options: argparse.Namespace) -> int:
    from trainyard.benchmark.create import apply, make, owner_of, write

    made = make(options.job, options.name, options.kustomize)
    apply(_client(options), made, owner_of(options.owner, options.owner_uid))
    metadata = {key: made.job["metadata"][key] for key in ("namespace", "name")}
    job = {"apiVersion": made.job["apiVersion"], "kind": made.job["kind"], "metadata": metadata}
    _write(options.out / "created.json", {"job": job, "images": made.images, "digest": made.digest})
    if options.parameters:
        write(made, options.parameters)
    commandline.say(f"{made.job['kind']} {options.name}: {len(made.others)} objects beside it")
    return EXIT_CLEAN


def _collect(options: argparse.Namespace) -> int:
    from trainyard.benchmark.assemble import COLLECTED, CREATED, read
    from trainyard.benchmark.collect import collect
    from trainyard.benchmark.prometheus import Prometheus

    job = read(options.out / CREATED)["job"]
    server = Prometheus(options.prometheus.rstrip("/")) if options.prometheus else None
    found = collect(_client(options), job, server, options.board)
    _write(options.out / COLLECTED, found)
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found["kubernetes"].items())
    commandline.say(f"{job['metadata']['name']}: {parts}")
    return EXIT_CLEAN


def _assemble(options: argparse.Namespace) -> int:
    from trainyard.benchmark.assemble import assemble

    _write(options.out, assemble(options.folder, options.name))
    commandline.say(str(options.out))
    return EXIT_CLEAN


def _rehearse(options: argparse.Namespace) -> int:
    from trainyard.benchmark.rehearse import Rehearsal

    slow = None
    if options.slow:
        node, _, part = options.slow.partition("=")
        try:
            slow = int(node), float(part)
        except ValueError:
            raise UsageError(f"--slow is NODE=PART, such as 1=0.5, not {options.slow}") from None
        if not (0 <= slow[0] < options.nodes and 0 < slow[1] <= 1):
            raise UsageError(f"--slow {options.slow}: there is no such node, or no such part")

    out = options.out.absolute()
    Rehearsal(HOME, options.cluster, options.name, out, options.nodes, slow, commandline.say).run()
    return EXIT_CLEAN


def _write(file: Path, said: Any) -> None:
    """Writes a JSON file whole or not at all: the claim is shared."""
    from trainyard.report.output import write_text

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {file.parent}: {(error.strerror or 'unknown').lower()}") from None
    write_text(file, json.dumps(said, indent=1) + "\n")


def _name(node: dict[str, Any]) -> str:
    return str(node["metadata"]["name"])
