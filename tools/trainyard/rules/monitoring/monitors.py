"""What Prometheus is told to scrape, and whether it finds it."""

from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.findings.finding import Severity
from trainyard.objects.objects import Object, Spot
from trainyard.objects.remedy import Remedy, put
from trainyard.objects.unit import Unit
from trainyard.rules.common.once import once
from trainyard.rules.monitoring.scrape_targets import (
    GROUP,
    endpoints,
    in_scope,
    labels_of,
    monitors,
    objects,
    scope,
    seconds,
    targets,
)
from trainyard.rules.registry import Problem, rule
from trainyard.workload.plain import digits, mapping, text
from trainyard.workload.selectors import Labels, selects

_SELECTORS = {
    "ServiceMonitor": "serviceMonitorSelector",
    "PodMonitor": "podMonitorSelector",
    "PrometheusRule": "ruleSelector",
}


@rule("MON001", "port-is-a-number", Severity.ERROR, needs=Unit, fix="safe")
@once
def port_is_a_number(unit: Unit) -> Iterator[Problem]:
    """A ServiceMonitor or PodMonitor gives the number of a port where its name belongs.

    `port` is the name of a port of the Service, or of the container for a PodMonitor. No port is called `8080`, so
    nothing is scraped, and nothing says so. A number goes into `targetPort` or `portNumber`.

    Bad:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PodMonitor
        metadata: {name: training}
        spec: {selector: {matchLabels: {app: train}}, podMetricsEndpoints: [{port: "9090"}]}
    Bad:
        # whole
        apiVersion: v1
        kind: Service
        metadata: {name: training, labels: {app: train}}
        spec: {selector: {app: train}, ports: [{name: metrics, port: 9090}]}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: ServiceMonitor
        metadata: {name: training}
        spec: {selector: {matchLabels: {app: train}}, endpoints: [{port: "9090"}]}
    Good:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PodMonitor
        metadata: {name: training}
        spec: {selector: {matchLabels: {app: train}}, podMetricsEndpoints: [{port: metrics}]}
    Near miss:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PodMonitor
        metadata: {name: training}
        spec: {selector: {matchLabels: {app: train}}, podMetricsEndpoints: [{portNumber: 9090}]}

    Source: https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.Endpoint
    """
    for monitor in monitors(unit):
        for spot, endpoint in endpoints(monitor):
            port = endpoint.get("port")
            if (number := digits(port)) is not None:
                field = "targetPort" if monitor.kind == "ServiceMonitor" else "portNumber"
                yield Problem(
                    f"{monitor.kind} {monitor.name} looks for a port called {port!r}",
                    spot.below("port", label="the name of a port belongs here"),
                    help=f"write the port's name, or {field}: {port}",
                    fix=_port_called(unit, monitor, spot, number),
                )


def _port_called(unit: Unit, monitor: Object, spot: Spot, number: int) -> Remedy | None:
    """The name of the port of this number, of what the monitor selects."""
    selector = mapping(monitor.data.get("spec")).get("selector")
    selected = [each for each in targets(unit, monitor.kind) if selects(selector, each.labels) is True]
    names = {name for each in selected for name, port in each.ports.items() if _number(port) == number}
    return put(spot.below("port"), names.pop()) if len(names) == 1 else None


def _number(port: Mapping[Any, Any]) -> object:
    return port.get("port", port.get("containerPort"))


@rule("MON002", "monitor-finds-nothing", Severity.ERROR, needs=Unit)
@once
def monitor_finds_nothing(unit: Unit) -> Iterator[Problem]:
    """A ServiceMonitor or PodMonitor selects nothing of what it seems to be for.

    A ServiceMonitor selects Services by the labels of the Services, not of their pods. Both look in their own namespace
    alone, unless namespaceSelector says otherwise. Nothing is scraped, and nothing says so.

    Bad:
        # whole
        apiVersion: v1
        kind: Service
        metadata: {name: train, namespace: research}
        spec: {selector: {app: train}, ports: [{name: metrics, port: 9090}]}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: ServiceMonitor
        metadata: {name: train, namespace: research}
        spec: {selector: {matchLabels: {app: train}}, endpoints: [{port: metrics}]}
    Good:
        # whole
        apiVersion: v1
        kind: Service
        metadata: {name: train, namespace: research, labels: {app: train}}
        spec: {selector: {app: train}, ports: [{name: metrics, port: 9090}]}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: ServiceMonitor
        metadata: {name: train, namespace: monitoring}
        spec:
          selector: {matchLabels: {app: train}}
          namespaceSelector: {matchNames: [research]}
          endpoints: [{port: metrics}]
    Near miss:
        # whole
        apiVersion: v1
        kind: Service
        metadata: {name: train, namespace: research}
        spec: {selector: {app: train}, ports: [{name: rendezvous, port: 29400}]}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: ServiceMonitor
        metadata: {name: kueue, namespace: research}
        spec: {selector: {matchLabels: {control-plane: kueue}}, endpoints: [{port: https}]}

    Source: https://prometheus-operator.dev/docs/developer/getting-started/
    """
    for monitor in monitors(unit):
        selector = mapping(monitor.data.get("spec")).get("selector")
        found = list(targets(unit, monitor.kind))
        if not isinstance(selector, dict) or selector.keys() - {"matchLabels", "matchExpressions"}:
            continue
        matching = [each for each in found if selects(selector, each.labels) is not False]
        what = "Service" if monitor.kind == "ServiceMonitor" else "pod"
        if matching and not any(in_scope(monitor, each.namespace) for each in matching):
            yield Problem(
                f"{monitor.kind} {monitor.name} looks in namespace {scope(monitor)}, but its {what}s are in "
                f"{', '.join(sorted({each.namespace for each in matching}))}",
                monitor.at("spec", "namespaceSelector", label="its own namespace alone, if absent"),
                tuple(each.spot.saying("not looked at") for each in matching),
                f"name the namespace of the {what}s in namespaceSelector.matchNames",
            )
        names = {text(endpoint.get("port")) for _, endpoint in endpoints(monitor)} - {""}
        meant = [each for each in found if in_scope(monitor, each.namespace) and names & each.ports.keys()]
        if meant and not matching:
            ports = ", ".join(sorted(names))
            yield Problem(
                f"{monitor.kind} {monitor.name} selects no {what}: none of those with port {ports} has its labels",
                monitor.at("spec", "selector", "matchLabels", label=f"compared with the labels of the {what}s"),
                tuple(each.spot.saying(f"the labels of a {what}") for each in meant),
                f"give the {what} these labels, or select those that it has",
            )


@rule("MON003", "port-unknown", Severity.ERROR, needs=Unit, fix="safe")
@once
def port_unknown(unit: Unit) -> Iterator[Problem]:
    """A ServiceMonitor or PodMonitor names a port that what it selects does not have.

    A ServiceMonitor means the name of a port of the Service, a PodMonitor that of a container. Nothing is scraped.

    Bad:
        # whole
        apiVersion: v1
        kind: Service
        metadata: {name: train, labels: {app: train}}
        spec: {selector: {app: train}, ports: [{name: metrics, port: 9090}]}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: ServiceMonitor
        metadata: {name: train}
        spec: {selector: {matchLabels: {app: train}}, endpoints: [{port: http-metrics}]}
    Good:
        # whole
        apiVersion: v1
        kind: Service
        metadata: {name: train, labels: {app: train}}
        spec: {selector: {app: train}, ports: [{name: metrics, port: 9090}]}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: ServiceMonitor
        metadata: {name: train}
        spec: {selector: {matchLabels: {app: train}}, endpoints: [{port: metrics}]}
    Near miss:
        # whole
        apiVersion: v1
        kind: Service
        metadata: {name: train, labels: {app: train}}
        spec: {selector: {app: train}, ports: [{port: 9090}]}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: ServiceMonitor
        metadata: {name: train}
        spec: {selector: {matchLabels: {app: train}}, endpoints: [{targetPort: 9090}]}

    Source: https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.Endpoint
    """
    for monitor in monitors(unit):
        selector = mapping(monitor.data.get("spec")).get("selector")
        found = [each for each in targets(unit, monitor.kind) if in_scope(monitor, each.namespace)]
        selected = [each for each in found if selects(selector, each.labels) is True]
        for spot, endpoint in endpoints(monitor):
            port = text(endpoint.get("port"))
            if not port or port.isdigit() or not selected or any(port in each.ports for each in selected):
                continue
            known = sorted({name for each in selected for name in each.ports})
            yield Problem(
                f"{monitor.kind} {monitor.name} scrapes port {port}, but what it selects has "
                f"{', '.join(known) if known else 'no port with a name'}",
                spot.below("port", label="no such port"),
                tuple(each.ports_spot.saying("its ports") for each in selected),
                f"write {known[0]}" if known else f"call a port {port}",
                put(spot.below("port"), known[0]) if len(known) == 1 else None,
            )


@rule("MON004", "timeout-over-interval", Severity.ERROR, needs=Unit, fix="safe")
@once
def timeout_over_interval(unit: Unit) -> Iterator[Problem]:
    """A scrape may take longer than the time until the next one.

    Prometheus refuses a scrapeTimeout above the interval, and its operator leaves such a monitor out.

    Bad:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PodMonitor
        metadata: {name: training}
        spec: {selector: {}, podMetricsEndpoints: [{port: metrics, interval: 15s, scrapeTimeout: 30s}]}
    Good:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PodMonitor
        metadata: {name: training}
        spec: {selector: {}, podMetricsEndpoints: [{port: metrics, interval: 30s, scrapeTimeout: 10s}]}
    Near miss:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PodMonitor
        metadata: {name: training}
        spec: {selector: {}, podMetricsEndpoints: [{port: metrics, interval: 1m, scrapeTimeout: 60s}]}

    Source: https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config
    """
    for monitor in monitors(unit):
        for spot, endpoint in endpoints(monitor):
            interval, timeout = seconds(endpoint.get("interval")), seconds(endpoint.get("scrapeTimeout"))
            if interval is not None and timeout is not None and timeout > interval:
                yield Problem(
                    f"scrapeTimeout {endpoint['scrapeTimeout']} is longer than interval {endpoint['interval']}",
                    spot.below("scrapeTimeout", label="refused"),
                    (spot.below("interval", label="the time between two"),),
                    f"write at most {endpoint['interval']}",
                    put(spot.below("scrapeTimeout"), endpoint["interval"]),
                )


@rule("MON005", "not-picked-up", Severity.ERROR, needs=Unit, fix="safe")
@once
def not_picked_up(unit: Unit) -> Iterator[Problem]:
    """A monitor or an alert lacks the labels by which Prometheus picks them up.

    The operator reads only what its Prometheus object selects; kube-prometheus-stack selects `release: <its name>`.
    Everything else is ignored without a message. Where no Prometheus object is shown, the label `release` that all the
    others carry says what is selected.

    Bad:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: Prometheus
        metadata: {name: main, namespace: monitoring}
        spec: {podMonitorSelector: {matchLabels: {release: stack}}}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: PodMonitor
        metadata: {name: training, namespace: monitoring}
        spec: {selector: {}, podMetricsEndpoints: [{port: metrics}]}
    Bad:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: PodMonitor
        metadata: {name: training, labels: {release: stack}}
        spec: {selector: {}, podMetricsEndpoints: [{port: metrics}]}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: ServiceMonitor
        metadata: {name: serving}
        spec: {selector: {}, endpoints: [{port: metrics}]}
    Good:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: Prometheus
        metadata: {name: main, namespace: monitoring}
        spec: {podMonitorSelector: {matchLabels: {release: stack}}}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: PodMonitor
        metadata: {name: training, namespace: monitoring, labels: {release: stack}}
        spec: {selector: {}, podMetricsEndpoints: [{port: metrics}]}
    Near miss:
        # whole
        apiVersion: monitoring.coreos.com/v1
        kind: Prometheus
        metadata: {name: main, namespace: monitoring}
        spec: {podMonitorSelector: {}}
        ---
        apiVersion: monitoring.coreos.com/v1
        kind: PodMonitor
        metadata: {name: training, namespace: monitoring}
        spec: {selector: {}, podMetricsEndpoints: [{port: metrics}]}

    Source: https://prometheus-operator.dev/docs/platform/troubleshooting/
    """
    ours = [item for item in objects(unit) if item.group == GROUP]
    watched = [item for item in ours if item.kind in _SELECTORS]
    readers = [item for item in ours if item.kind == "Prometheus"]
    for item in watched:
        labels = Labels(labels_of(item))
        field = _SELECTORS[item.kind]
        choices = [(reader, mapping(reader.data.get("spec")).get(field)) for reader in readers]
        if choices and all(isinstance(each, dict) and selects(each, labels) is False for _, each in choices):
            yield Problem(
                f"{item.kind} {item.name} is not among what Prometheus {choices[0][0].name} selects",
                item.at("metadata", "labels", label="ignored with these labels"),
                tuple(reader.at("spec", field, label="what is read") for reader, _ in choices),
                "give it the labels that are selected",
            )
        releases = {labels_of(each).get("release") for each in watched if each is not item}
        alone = not readers and "release" not in labels.known and len(watched) > 1
        if alone and len(releases) == 1 and (release := releases.pop()) is not None:
            yield Problem(
                f"{item.kind} {item.name} has no label release: {release}, which all the others have",
                item.at("metadata", "labels", "release", label="not picked up without it"),
                tuple(
                    each.at("metadata", "labels", "release", label="picked up") for each in watched if each is not item
                ),
                f"add the label release: {release}",
                put(item.at("metadata", "labels", "release"), release),
            )
