"""python -m trainer: see --help."""

import json
import os
import sys
from collections.abc import Sequence

from trainer import launch, manual, process, sources
from trainer.errors import Preempted, TrainerError
from trainer.presets import PRESETS, weights


def main(arguments: Sequence[str]) -> int:
    """The command line. Returns the exit code."""
    if "-h" in arguments or "--help" in arguments:
        sys.stdout.write(manual.help_text())
        return 0
    try:
        if "--models" in arguments:
            return _print_models()
        if "--config" in arguments:
            config = sources.read([word for word in arguments if word != "--config"])
            sys.stdout.write(json.dumps(sources.dump(config), indent=1) + "\n")
            return 0
        config = sources.read(arguments)
        process.set_variables(config)
        process.end_with_launcher(launch.find())
        from trainer.loop import run  # torch takes seconds to import; a misspelt key is told before

        run(config)
    except TrainerError as error:
        rank = os.environ.get("RANK", "0")
        if error.code != Preempted.code or rank == "0":
            sys.stderr.write(f"{'stopped' if error.code == Preempted.code else 'error'}: rank {rank}: {error}\n")
        return error.code
    return 0


def _print_models() -> int:
    for name, shape in PRESETS.items():
        sys.stdout.write(f"{name:16} {weights(shape):>15,} weights\n")
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads that wait for a slow disk or a dead peer are not waited for
