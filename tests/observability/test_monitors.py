"""Scrapes: a monitor finds its pods and their port, Prometheus finds the monitor, the labels are what rules read."""

from collections.abc import Mapping

import pytest

from tests.observability.catalogue import BASE, HOME, read
from tests.observability.folders import CLUSTERS, JOBS, RUN, Json, of_kind, one_of_kind, pods, rendered
from tests.observability.programs import parsed_alloy

TRAINING = read(BASE / "pod-monitor-training.yaml")
TAKEN_UP = {"release": "kube-prometheus-stack"}


def ports(pod: Json) -> set[str]:
    return {port.get("name", "") for container in pod["spec"]["containers"] for port in container.get("ports", [])}


def labels(pod: Json) -> Mapping[str, str]:
    return pod.get("metadata", {}).get("labels") or {}


def runtime_objects() -> list[Json]:
    """What TrainJobs run on: their pods' ports are the runtime's."""
    return [item for cluster in CLUSTERS for item in rendered(f"clusters/{cluster}/platform/runtimes")]


@pytest.mark.parametrize("job", JOBS)
def test_every_run_has_pods_that_prometheus_reads(job: str) -> None:
    (expression,) = TRAINING["spec"]["selector"]["matchExpressions"]
    (endpoint,) = TRAINING["spec"]["podMetricsEndpoints"]

    found = [pod for item in rendered(job) for pod in pods(item) if RUN in labels(pod)]
    runtimes = {item["spec"]["runtimeRef"]["name"] for item in of_kind(job, "TrainJob")}
    ran = [pod for item in runtime_objects() if item["metadata"]["name"] in runtimes for pod in pods(item)]

    assert expression == {"key": RUN, "operator": "Exists"}
    assert found
    assert any(endpoint["port"] in ports(pod) for pod in ran or found)


def test_the_trainer_is_asked_where_it_answers() -> None:
    contract = read(HOME / "schemas/trainer-metrics.yaml")
    (endpoint,) = TRAINING["spec"]["podMetricsEndpoints"]

    assert (endpoint["port"], endpoint["path"]) == (contract["port"], contract["path"])
    assert TRAINING["spec"]["jobLabel"] == RUN


def test_a_scrape_gives_the_labels_that_rules_read() -> None:
    (endpoint,) = TRAINING["spec"]["podMetricsEndpoints"]
    by_operator = {"namespace", "pod", "container", "endpoint", "instance", "job"}

    given = {rule["targetLabel"] for rule in endpoint["relabelings"]} | by_operator

    assert given == set(read(HOME / "schemas/metrics/prometheus.yaml")["targetLabels"])


def test_no_scrape_takes_longer_than_its_interval() -> None:
    for file in (BASE / "pod-monitor-training.yaml", BASE / "logs/pod-monitor.yaml"):
        for endpoint in read(file)["spec"]["podMetricsEndpoints"]:
            assert seconds(endpoint["scrapeTimeout"]) <= seconds(endpoint["interval"])


def test_gpus_are_asked_no_more_often_than_the_exporter_looks() -> None:
    monitor = read(HOME / "base/gpu-operator/cluster-policy.yaml")["spec"]["dcgmExporter"]["serviceMonitor"]

    assert monitor["enabled"]
    assert not monitor["honorLabels"], "rules read exported_pod and exported_namespace"
    assert seconds(monitor["interval"]) >= 30


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_prometheus_takes_up_every_monitor_and_rule(cluster: str) -> None:
    watching = f"clusters/{cluster}/platform/monitoring"
    policy = one_of_kind(f"clusters/{cluster}/platform/nodes", "ClusterPolicy")

    found = [*of_kind(watching, "PodMonitor"), *of_kind(watching, "PrometheusRule")]

    assert found
    assert all(item["metadata"]["labels"].items() >= TAKEN_UP.items() for item in found)
    assert policy["spec"]["dcgmExporter"]["serviceMonitor"]["additionalLabels"] == TAKEN_UP


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_log_agent_is_found_by_its_monitor(cluster: str) -> None:
    folder = f"clusters/{cluster}/platform/monitoring"
    (agent,) = (item for item in of_kind(folder, "DaemonSet") if item["metadata"]["name"] == "log-agent")
    (monitor,) = (item for item in of_kind(folder, "PodMonitor") if item["metadata"]["name"] == "log-agent")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    pod = agent["spec"]["template"]

    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels(pod).items()
    assert monitor["metadata"]["namespace"] == agent["metadata"]["namespace"]
    assert endpoint["port"] in ports(pod)
    assert endpoint["honorLabels"], "the labels of the log line are what counts"


@pytest.mark.slow_build
def test_the_log_agent_can_read_its_configuration() -> None:
    assert parsed_alloy((BASE / "logs/config.alloy").read_text()) == [
        "logging",
        "discovery.kubernetes training",
        "discovery.relabel training",
        "local.file_match training",
        "loki.source.file training",
        "loki.process training",
        "loki.source.journal kernel",
        "loki.process kernel",
        "loki.write loki",
    ]


def test_logs_have_the_run_and_the_rank_as_scrapes_do() -> None:
    """Both read a pod's place in its run from the same labels, in the same order."""
    (endpoint,) = TRAINING["spec"]["podMetricsEndpoints"]
    scraped = [rule["sourceLabels"][0] for rule in endpoint["relabelings"] if rule["targetLabel"] == "rank"]
    config = (BASE / "logs/config.alloy").read_text()

    places = [config.index(f'["{label}"]') for label in scraped]

    assert len(scraped) == 2
    assert places == sorted(places)
    assert '["__meta_kubernetes_pod_label_trainyard_dev_job"]\n    target_label  = "job"' in config


def seconds(text: str) -> int:
    assert text.endswith("s")
    return int(text[:-1])
