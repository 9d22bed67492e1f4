"""What even the strict network does not check of a plan."""

from collections.abc import Iterator

from trainyard.rehearse.network.addresses import narrow_blocks
from trainyard.rehearse.network.links import FASTEST
from trainyard.rehearse.network.plan import NetworkPlan, name_of
from trainyard.workload.plain import mapping, sequence


def unchecked(plan: NetworkPlan, *, latency: bool) -> tuple[str, ...]:
    """A sentence each. `latency`: whether the latency that the plan asks for was set."""
    return tuple(_found(plan, latency))


def _found(plan: NetworkPlan, latency: bool) -> Iterator[str]:
    if not latency:
        yield "latency: this machine's kernel has no netem"
    if any(pod.host_network for pod in plan.pods):
        yield "ports below 1024 on the host's network: every user may listen there here"
    if plan.bits_per_second and plan.bits_per_second >= FASTEST:
        yield f"bandwidth: links of {plan.bits_per_second / 1e9:g} Gbit/s are as fast here as this machine is"
    blocks = sorted({str(block) for block in narrow_blocks(plan.policies)})
    if blocks:
        yield f"ipBlocks ({', '.join(blocks)}): they are enforced, but no address of the rehearsal is in them"
    for service in plan.services:
        spec = mapping(service.get("spec"))
        if spec.get("internalTrafficPolicy") == "Local":
            yield f"Service {name_of(service)}: internalTrafficPolicy Local; it leads to pods of all nodes here"
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            yield f"Service {name_of(service)}: type {spec['type']}; only its virtual address leads to its pods here"
        if "IPv6" in sequence(spec.get("ipFamilies")):
            yield f"Service {name_of(service)}: IPv6; the rehearsal has IPv4 alone"
