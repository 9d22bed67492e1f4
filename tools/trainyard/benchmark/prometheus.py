"""What Prometheus and DCGM measured of nodes and ranks while a job ran."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainyard.errors import Fault

_RUN = '{{namespace="{namespace}", job="{job}"}}'
_NETWORK = 'device!~"lo|veth.*|cali.*|cilium.*"'
TIMEOUT_SECONDS = 60

USAGE: Mapping[str, str] = {
    "gpu_busy_percent": "avg by (node) (avg_over_time(DCGM_FI_DEV_GPU_UTIL[{window}]))",
    "gpu_tensor_ratio": "avg by (node) (avg_over_time(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE[{window}]))",
    "gpu_memory_used_mebibytes": "max by (node) (max_over_time(DCGM_FI_DEV_FB_USED[{window}]))",
    "gpu_power_watts": "sum by (node) (avg_over_time(DCGM_FI_DEV_POWER_USAGE[{window}]))",
    "gpu_temperature_celsius": "max by (node) (max_over_time(DCGM_FI_DEV_GPU_TEMP[{window}]))",
    "gpu_clock_megahertz": "min by (node) (avg_over_time(DCGM_FI_DEV_SM_CLOCK[{window}]))",
    "cpu_busy_ratio": '1 - avg by (instance) (rate(node_cpu_seconds_total{{mode="idle"}}[{window}]))',
    "memory_used_ratio": "max by (instance) (1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)",
    "network_transmit_bytes_per_second": "sum by (instance) (rate(node_network_transmit_bytes_total{{"
    + _NETWORK
    + "}}[{window}]))",
    "network_receive_bytes_per_second": "sum by (instance) (rate(node_network_receive_bytes_total{{"
    + _NETWORK
    + "}}[{window}]))",
    "fabric_transmit_bytes_per_second": "sum by (instance) "
    "(rate(node_infiniband_port_data_transmitted_bytes_total[{window}]))",
}
"""Of each node, over the job's time. Node exporter's instance is the node's name, or an address with a port."""

STEPS = "sum by (node) (increase(trainyard_step_seconds_count" + _RUN + "[{window}]))"
PHASES: Mapping[str, str] = {
    "step": "sum by (node) (increase(trainyard_step_seconds_sum" + _RUN + "[{window}]))",
    "data": "sum by (node) (increase(trainyard_data_wait_seconds_total" + _RUN + "[{window}]))",
    "communication": "sum by (node) (increase(trainyard_communication_seconds_total" + _RUN + "[{window}]))",
    "checkpoint": "sum by (node) (increase(trainyard_checkpoint_seconds_sum" + _RUN + "[{window}]))",
}
"""Seconds of a node's pod; what of a step is neither data nor communication is computing."""

FIRMWARE: Mapping[str, tuple[str, str]] = {
    "network card": ("node_infiniband_info", "firmware_version"),
    "gpu": ("DCGM_FI_DEV_VBIOS_VERSION", "DCGM_FI_DEV_VBIOS_VERSION"),
}
"""Metrics that carry a version as a label, and the label."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One server."""

    address: str

    def query(self, expression: str, at: float) -> list[tuple[Mapping[str, str], float]]:
        """Labels and values of an instant query. Fault where the server does not answer."""
        query = urllib.parse.urlencode({"query": expression, "time": f"{at:.3f}"})
        try:
            with urllib.request.urlopen(f"{self.address}/api/v1/query?{query}", timeout=TIMEOUT_SECONDS) as answer:
                said: Any = json.load(answer)
        except (OSError, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.HTTPError) else error
            raise Fault(f"{self.address} does not answer {expression}: {reason}") from None
        if said.get("status") != "success":
            raise Fault(f"{self.address} refuses {expression}: {said.get('error')}")
        values = ((item["metric"], float(item["value"][1])) for item in said["data"]["result"])
        return [(labels, value) for labels, value in values if abs(value) < float("inf")]


def usage(server: Prometheus, nodes: set[str], begin: float, end: float) -> dict[str, dict[str, float]]:
    """Of each node the means over a job's time; what nobody measures is left out."""
    found: dict[str, dict[str, float]] = {node: {} for node in nodes}
    for name, template in USAGE.items():
        for labels, value in server.query(template.format(window=_window(begin, end)), end):
            node = _node(labels, nodes)
            if node:
                found[node][name] = value
    return found


def phases(server: Prometheus, namespace: str, job: str, begin: float, end: float) -> dict[str, dict[str, float]]:
    """Of each node, seconds of a step by what they went into."""
    names = {"namespace": namespace, "job": job, "window": _window(begin, end)}
    steps = {labels.get("node", ""): value for labels, value in server.query(STEPS.format(**names), end)}
    totals = {
        name: {labels.get("node", ""): value for labels, value in server.query(template.format(**names), end)}
        for name, template in PHASES.items()
    }
    found = {}
    for node, count in steps.items():
        if node and count > 0:
            each = {name: values.get(node, 0.0) / count for name, values in totals.items()}
            compute = max(0.0, each.pop("step") - each["data"] - each["communication"])
            found[node] = {"compute": compute, **each}
    return found


def firmware(server: Prometheus, at: float) -> dict[str, str]:
    """Versions of firmware, each once."""
    found = {}
    for name, (metric, label) in FIRMWARE.items():
        versions = {labels.get(label, "") for labels, _ in server.query(metric, at)} - {""}
        found[name] = ", ".join(sorted(versions)) or "not stated"
    return found


def _node(labels: Mapping[str, str], nodes: set[str]) -> str:
    """The node that labels name: itself, or the host before the port."""
    for name in (labels.get("node", ""), labels.get("instance", "").rpartition(":")[0], labels.get("instance", "")):
        if name in nodes:
            return name
    return ""


def _window(begin: float, end: float) -> str:
    return f"{max(60, round(end - begin))}s"
