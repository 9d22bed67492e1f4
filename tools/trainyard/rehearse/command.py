"""rehearse-job: runs the rendered pods of a job as processes on this machine, before a cluster does."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from trainyard.errors import EXIT_BAD_INPUT, EXIT_CLEAN, EXIT_FAULT, EXIT_INTERRUPTED, Fault, InputError, UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    return _rehearse(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rehearse-job")
    parser.add_argument("job")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--gpus-per-node", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--patience", type=float, default=30)
    parser.add_argument("--once", action="store_true")
    return parser


def _rehearse(options) -> int:
    from trainyard.discover import repository_root
    from trainyard.rehearse.load import load
    from trainyard.rehearse.rehearsal import Wishes, rehearse
    from trainyard.rehearse.sandbox import sandbox
    from trainyard.rehearse.scale import Scale
    from trainyard.rehearse.state import own_mounts, state_folder
    from trainyard.rehearse.substitutes import Substitutes
    from trainyard.rehearse.voices import Voices

    cwd = Path.cwd()
    root = repository_root(cwd, [options.job])
    own_mounts()
    with state_folder() as state:
        loaded = load(root, options.job, cwd, Scale(options.nodes, options.gpus_per_node), state / "scaled")
        voices = Voices(sys.stderr, True)
        seen = rehearse(loaded, Wishes(patience=options.patience, again=not options.once), Substitutes(options.steps, 2), sandbox(), state, voices.line)
    print(seen.first.outcome, seen.first.ranks, seen.expected, seen.first.joined_after, seen.saved, seen.first.observed.losses)
    if seen.second:
        print(seen.second.outcome, seen.second.ranks, seen.second.observed.losses, seen.second.observed.resumed_from)
    print(seen.substitutes.told, seen.made_up, seen.invented, seen.unchecked)
    return 0
