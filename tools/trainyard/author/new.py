"""new-job: writes the folder of a job, with the numbers that its author need not know."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainyard import commandline
from trainyard.author.answers import (
    Answers,
    Preferences,
    Refused,
    check_choice,
    check_name,
    check_new,
    check_nodes,
    check_path,
)
from trainyard.author.ask import Asker
from trainyard.author.choices import Choices
from trainyard.author.command import COUNT, RATE
from trainyard.author.files import job, kustomization, place
from trainyard.author.propose import check_batch, propose
from trainyard.author.request import serve, takes_a_program
from trainyard.author.trial import copied, judge
from trainyard.errors import EXIT_CLEAN, UsageError
from trainyard.home import as_called
from trainyard.plan.text import duration
from trainyard.report.terminal import columns, wants_color
from trainyard.repository.discover import repository_root
from trainyard.repository.listed import clusters_with_flux, list_file
from trainyard.yaml.sources import Sources

if TYPE_CHECKING:
    from trainyard.author.propose import Proposal


def new(options: argparse.Namespace, read: Callable[[str], str]) -> int:
    """Write the folder that the command line and the answers ask for. Returns the exit code.

    `read` shows a question and gives the answer. UsageError where an answer is missing or cannot be taken.
    """
    try:
        return _new(options, read)
    except EOFError:
        raise UsageError("the input ended before the last answer; nothing is written") from None


def _new(options: argparse.Namespace, read: Callable[[str], str]) -> int:
    if options.steps is not None and options.tokens is not None:
        raise UsageError("give --steps or --tokens, not both")
    root = (options.root or repository_root(Path.cwd(), [])).resolve()
    choices = Choices(Sources(root))
    if not choices.clusters() or not choices.launchers():
        raise UsageError(f"{root} has no clusters/ and base/ to make a job of")
    if options.list_launchers or options.request:
        return _for_a_program(root, choices, options.request)
    asker = Asker(sys.stdin is not None and sys.stdin.isatty(), read)
    answers = _answers(options, choices, asker)
    wishes = Preferences(options.batch, options.learning_rate, options.steps, options.tokens, options.sequence_length)
    proposal = propose(choices, answers, wishes)
    if asker.terminal:
        wishes = _wishes(asker, wishes, proposal, lambda wishes: propose(choices, answers, wishes))
        proposal = propose(choices, answers, wishes)
    gpus = choices.facts(answers.cluster)["Cluster"]["spec"]["node"]["gpus"]
    files = {"job.yaml": job(answers, proposal, gpus), "kustomization.yaml": kustomization(answers)}
    with copied(root, answers.folder, files) as copy:
        trial = judge(copy, answers.folder, color=wants_color("auto", sys.stdout), width=columns(sys.stdout))
    for name, text in files.items():
        commandline.say(f"--- {answers.folder}/{name}\n{text}\n")
    commandline.say(trial.findings + "\n" + (trial.forecast or f"no forecast: {trial.no_forecast}\n") + "\n")
    if options.dry_run:
        commandline.say(f"{answers.folder}: not written (--dry-run)")
        return trial.code
    place(root, answers.folder, files)
    commandline.say(f"{answers.folder}: written\n\nnext:")
    commandline.say(as_called("\n".join(f"    {line}" for line in next_commands(root, answers))))
    return EXIT_CLEAN if not trial.code else trial.code


def _for_a_program(root: Path, choices: Choices, request: bool) -> int:
    """What trainyard.notebook asks for, as JSON."""
    if request:
        commandline.say(json.dumps(asdict(serve(root, sys.stdin.read()))))
    else:
        commandline.say(json.dumps([name for name in choices.launchers() if takes_a_program(choices, name)]))
    return EXIT_CLEAN


def next_commands(root: Path, answers: Answers) -> list[str]:
    """What brings a job folder to its cluster."""
    flux = answers.cluster in clusters_with_flux(root)
    listed = f" {list_file(answers.cluster)}" if flux else ""
    return [
        *(["tools/list-jobs    # Flux finds jobs by the list that this writes"] if flux else []),
        f"git checkout -b {answers.name} && git add {answers.folder}{listed}",
        f'git commit -m "Train {answers.name}" && git push -u origin {answers.name}',
    ]


def _answers(options: argparse.Namespace, choices: Choices, asker: Asker) -> Answers:
    """Everything that is asked for, in an order in which each answer narrows the next."""
    _all_or_terminal(options, asker)
    clusters, launchers = choices.clusters(), choices.launchers()
    cluster = asker.answer(
        "--cluster",
        options.cluster,
        "cluster",
        lambda said: check_choice(said, clusters, "cluster"),
        choices=clusters,
        default=clusters[0] if len(clusters) == 1 else "",
    )
    teams = choices.teams(cluster)
    team = asker.answer(
        "--team",
        options.team,
        "team",
        lambda said: check_choice(said, teams, f"team on {cluster}"),
        choices=teams,
        default=teams[0] if len(teams) == 1 else "",
    )

    def check_free(said: str) -> str:
        check_new(choices.root, f"jobs/{team}/{check_name(said)}")
        return said

    name = asker.answer("--name", options.name, "name of the run", check_free)
    launcher = asker.answer(
        "--launcher",
        options.launcher,
        "launcher",
        lambda said: check_choice(said, tuple(launchers), "launcher"),
        choices=[f"{base} ({makes})" for base, makes in launchers.items()],
        default=next(iter(launchers)),
    )
    models = tuple(choices.models())
    model = asker.answer(
        "--model", options.model, "model", lambda said: check_choice(said, models, "model"), choices=models
    )
    nodes = asker.answer("--nodes", options.nodes, "nodes", lambda said: check_nodes(said, choices, cluster))
    claims = choices.claims(cluster)
    claim = asker.answer(
        "--claim",
        options.claim if options.claim or len(claims) > 1 else claims[0],
        "claim of the dataset",
        lambda said: check_choice(said, claims, f"dataset claim on {cluster}"),
        choices=claims,
        default=claims[0],
    )
    used = choices.dataset_paths(team)
    if options.data is None and asker.terminal and used:
        asker.tell(f"other jobs of {team} read {', '.join(used)}")
    path = asker.answer("--data", options.data, "folder of the dataset", check_path)
    queue = check_choice(options.queue, choices.queues(), "queue") if options.queue else ""
    return Answers(name, cluster, team, launcher, model, nodes, claim, path, queue)


def _all_or_terminal(options: argparse.Namespace, asker: Asker) -> None:
    """UsageError that names every missing flag at once, where nobody can be asked."""
    missing = [flag for flag in ("name", "cluster", "model", "nodes", "data") if getattr(options, flag) is None]
    if missing and not asker.terminal:
        flags = ", ".join(f"--{flag}" for flag in missing)
        raise UsageError(f"standard input is not a terminal, so give {flags} (see new-job --help)")


def _wishes(
    asker: Asker, wishes: Preferences, proposal: "Proposal", propose: "Callable[[Preferences], Proposal]"
) -> Preferences:
    """The proposed numbers, for the author to take or to change; those after the batch are proposed for it."""

    def read(text: str, number: Callable[[str], float]) -> float:
        try:
            return number(text)
        except ValueError:
            raise Refused(f"{text!a} is not a {number.__name__}") from None

    def batch(text: str) -> int:
        samples = int(read(text, COUNT))
        check_batch(samples, proposal.batch // (proposal.micro * proposal.accumulation))
        return samples

    if wishes.batch is None:
        said = asker.answer("--batch", None, "samples a step", batch, default=str(proposal.batch))
        if said != proposal.batch:
            wishes = replace(wishes, batch=said)
            proposal = propose(wishes)
    if wishes.learning_rate is None:
        default = f"{proposal.learning_rate:g}"
        rate = asker.answer("--learning-rate", None, "learning rate", lambda text: read(text, RATE), default=default)
        wishes = replace(wishes, learning_rate=None if rate == proposal.learning_rate else rate)
    if wishes.steps is None and wishes.tokens is None:
        default = str(proposal.steps)
        hours = duration(proposal.steps * proposal.step_seconds)
        asker.tell(f"a step is forecast to take {duration(proposal.step_seconds)}, so {default} of them {hours}")
        steps = asker.answer("--steps", None, "steps", lambda text: int(read(text, COUNT)), default=default)
        wishes = replace(wishes, steps=None if steps == proposal.steps else steps)
    return wishes
