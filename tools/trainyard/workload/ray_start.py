"""The ray start command that KubeRay v1.6.2 makes of a group, to the letter."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from trainyard.objects.quantity import quantity
from trainyard.workload.plain import mapping, strings

METRICS_PORT = 8080
_AGENT_PORT = "52365"
_GPU = re.compile(r".*gpu\Z|nvidia\.com/mig-[0-9]+g\.[0-9]+gb\Z", re.DOTALL)
_ACCELERATORS = {"aws.amazon.com/neuroncore": "neuron_cores", "google.com/tpu": "TPU"}
_NOT_FLAGS = ("log-color", "include-dashboard")


def group_params(group: Mapping[Any, Any]) -> dict[str, str]:
    """Parameters of ray start that the group's own resources and labels stand for."""
    found: dict[str, str] = {}
    others: dict[str, float] = {}
    for name, amount in strings(group.get("resources")).items():
        number = quantity(amount)
        if number is None:
            continue
        if name.lower() in ("cpu", "memory"):
            found["num-cpus" if name.lower() == "cpu" else "memory"] = str(math.ceil(number))
        elif _GPU.match(name.lower()):
            found["num-gpus"] = str(math.ceil(number))
        else:
            others[name] = float(number)
    if others:
        found["resources"] = f"'{_json(others)}'"
    if labels := strings(group.get("labels")):
        found["labels"] = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    return found


def start_command(container: Mapping[Any, Any], params: Mapping[str, str | None], verb: str) -> str | None:
    """The command of a group whose first container is `container`; None where a parameter is not known."""
    filled: dict[str, str | None] = {**params}
    filled.setdefault("metrics-export-port", str(METRICS_PORT))
    filled.setdefault("dashboard-agent-listen-port", _AGENT_PORT)
    filled["block"] = "true"
    resources = mapping(container.get("resources"))
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    if cpus := _whole(limits.get("cpu")) or _whole(requests.get("cpu")):
        filled.setdefault("num-cpus", cpus)
    if memory := _whole(limits.get("memory")):
        filled.setdefault("memory", memory)
    for name in sorted(key for key in limits if isinstance(key, str)):
        if _GPU.match(name) and (gpus := _whole(limits[name])):
            filled.setdefault("num-gpus", gpus)
    if (accelerators := _accelerators(limits, filled.get("resources"))) is not None:
        filled["resources"] = accelerators
    if None in filled.values():
        return None
    return verb + "".join(_flag(option, str(filled[option])) for option in sorted(filled))


def _accelerators(limits: Mapping[Any, Any], given: str | None) -> str | None:
    """Ray's own resources with the first accelerator that has a name of Ray's own; None where they stay as they are."""
    try:
        resources = json.loads(given.strip("'\"` ")) if given else {}
    except ValueError:
        return None
    if not isinstance(resources, dict) or any(name in resources for name in _ACCELERATORS.values()):
        return None
    for name in sorted(key for key in limits if isinstance(key, str)):
        amount = quantity(limits[name]) if name in _ACCELERATORS else None
        if amount:
            return f"'{_json({**resources, _ACCELERATORS[name]: float(amount)})}'"
    return None


def _flag(option: str, argument: str) -> str:
    if argument.lower() in ("true", "false") and option not in _NOT_FLAGS:
        return f" --{option} " if argument.lower() == "true" else ""
    return f" --{option}={argument} "


def _whole(amount: Any) -> str:
    number = quantity(amount)
    return str(math.ceil(number)) if number else ""


def _json(resources: Mapping[str, float]) -> str:
    shown = {name: int(amount) if amount == int(amount) else amount for name, amount in sorted(resources.items())}
    return json.dumps(shown, separators=(",", ":"))
