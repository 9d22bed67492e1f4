"""What is generated from the keys: --help, schemas/trainer.schema.json (`python -m trainer.manual` prints it), and
their part of job.yaml's schema."""

import json
import sys
from typing import Any

from trainer.sources import KEYS, Key

USAGE = """usage: python -m trainer [CONFIG.yaml] [key=value ...]
       the same after torchrun -m or mpirun; python -m trainer.ray and trainer.tensorflow take the same arguments

Trains one model. Keys come from the file, then from the environment, then from the command line; the last one wins.
--help shows this, --models lists the models, --config prints every key as it was read.
The last line on standard output is one JSON object with the result.
Exit codes: 0 done, 2 config, 3 fault, 4 data, 5 loss not finite, 6 checkpoints, 7 another rank is gone,
8 no checkpoint is usable, 9 checkpoints cannot be read now, 75 stopped and saved: start it again.
"""

TYPES = {int: "integer", float: "number", bool: "boolean", str: "string"}


def help_text() -> str:
    """The manual page: every key with type, unit, default and variable."""
    lines = [USAGE]
    for known in KEYS.values():
        kind = "|".join(known.choices) or TYPES[known.type]
        unit = f", {known.unit}" if known.unit else ""
        lines += [f"  {known.name} ({kind}{unit}; default {json.dumps(known.default)})  {known.variable}"]
        lines += [f"      {known.text}"]
    return "\n".join(lines) + "\n"


def schema() -> dict[str, Any]:
    """JSON Schema (draft 7) of a config file."""
    properties: dict[str, Any] = {}
    for known in KEYS.values():
        group, _, name = known.name.rpartition(".")
        into = properties
        if group:
            empty: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": {}}
            into = properties.setdefault(group, empty)["properties"]
        into[name] = _property(known)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Trainer",
        "description": "Config file of `python -m trainer`. Made by `python -m trainer.manual`.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def in_job(known: Key) -> dict[str, Any]:
    """JSON Schema of a key where job.yaml sets it."""
    made = {**_property(known), "description": f"{known.text[0].upper()}{known.text[1:]}.", **known.there}
    return {name: value for name, value in made.items() if value is not None}


def _property(known: Key) -> dict[str, Any]:
    unit = f" [{known.unit}]" if known.unit else ""
    made: dict[str, Any] = {"description": f"{known.text}{unit}; {known.variable}", "default": known.default}
    made |= {"enum": list(known.choices)} if known.choices else {"type": TYPES[known.type]}
    if known.low is not None:
        made["exclusiveMinimum" if known.above else "minimum"] = known.low
    if known.high is not None:
        made["maximum"] = known.high
    return made


def main() -> None:
    """Prints the schema."""
    json.dump(schema(), sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
