"""Kustomizations in the style of others: an overlay with components, a GitOps application, an old one."""

from pathlib import Path

import pytest

from tests.kustomize.replay.support import compare
from trainyard.kustomize.kustomization import load_graph
from trainyard.yaml.sources import Sources

FOREIGN = Path(__file__).parent / "foreign"
FOLDERS = ["kubeflow/overlays/standalone", "podinfo/apps/production", "oldstyle/overlay"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_leaf_is_equal_and_has_a_place(folder: str) -> None:
    both = compare(FOREIGN, folder)
    assert both.differences() == []
    assert both.known() == 1.0


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_in_them_is_refused(folder: str) -> None:
    assert folder in load_graph(Sources(FOREIGN), folder).kustomizations


def test_places_in_a_kubeflow_like_overlay() -> None:
    both = compare(FOREIGN, "kubeflow/overlays/standalone")
    deployment, webhook = "Deployment/kubeflow/tuning-controller", "ValidatingWebhookConfiguration/tuning.example.org"
    container = "spec.template.spec.containers[0]"
    overlay, base = "kubeflow/overlays/standalone", "kubeflow/manifests/controller"
    assert both.where(deployment, "spec.replicas") == f"{overlay}/deployment-json.yaml: value: 2 [2]"
    assert both.where(deployment, f"{container}.image") == f"{overlay}/kustomization.yaml: newTag: v0.18.0 [v0.18.0]"
    assert both.where(deployment, f"{container}.resources.requests.cpu") == (
        f"{overlay}/deployment-json.yaml: requests: {{cpu: 500m, memory: 512Mi}} [500m]"
    )
    assert both.where(deployment, f"{container}.args[2]") == (
        "kubeflow/components/monitoring/kustomization.yaml: value: --metrics-secure=false [--metrics-secure=false]"
    )
    assert both.where(deployment, "spec.selector.matchLabels.app") == (
        f"{base}/kustomization.yaml: app: tuning-controller [tuning-controller]"
    )
    assert both.where(webhook, "webhooks[0].failurePolicy") == f"{overlay}/webhook.yaml: failurePolicy: Ignore [Ignore]"
    assert both.where(webhook, "webhooks[0].clientConfig.service.namespace") == (
        f"{overlay}/kustomization.yaml: namespace: kubeflow [kubeflow]"
    )
    config = next(item for item in both.objects if item.kind == "ConfigMap")
    assert both.at(config, ("data", "config.yaml", "init", "controller", "trialResources", 1)) == (
        f"{overlay}/tuning-config.yaml: - PyTorchJob.v1.kubeflow.org [PyTorchJob.v1.kubeflow.org]"
    )


def test_places_in_a_gitops_application() -> None:
    both = compare(FOREIGN, "podinfo/apps/production")
    deployment, overlay = "Deployment/production/prod-podinfo", "podinfo/apps/production/kustomization.yaml"
    container = "spec.template.spec.containers[0]"
    assert both.where(deployment, "spec.replicas") == f"{overlay}: count: 3 [3]"
    assert both.where(deployment, f"{container}.env[LOG_LEVEL].value") == (
        f"{overlay}: env: [{{name: LOG_LEVEL, value: debug}}] [debug]"
    )
    assert both.where(deployment, f"{container}.envFrom[1].secretRef.name") == (
        "podinfo/apps/base/kustomization.yaml: - name: api [api]"
    )
    secret = next(item for item in both.objects if item.kind == "Secret")
    assert both.where(secret.title, "data.TOKEN") == "podinfo/apps/base/api.env: TOKEN=changeme [changeme]"
    ui = next(item for item in both.objects if item.kind == "ConfigMap")
    assert both.where(ui.title, "data.PODINFO_UI_MESSAGE") == f"{overlay}: - PODINFO_UI_MESSAGE=production [production]"
    assert both.where(ui.title, "data.PODINFO_UI_COLOR") == (
        "podinfo/apps/base/kustomization.yaml: - PODINFO_UI_COLOR=#34577c [#34577c]"
    )


def test_places_in_an_old_kustomization() -> None:
    both = compare(FOREIGN, "oldstyle/overlay")
    deployment, overlay = "Deployment/demo-wordpress-v1", "oldstyle/overlay"
    pod = "spec.template.spec"
    assert both.where(deployment, f"{pod}.containers[0].resources.limits.memory") == (
        f"{overlay}/patch.yaml: memory: 256Mi [256Mi]"
    )
    assert (
        both.where(deployment, f"{pod}.initContainers[0].image") == f"{overlay}/Kustomization: newTag: stable [stable]"
    )
    assert both.where("StatefulSet/demo-mysql-v1", f"{pod}.containers[0].image") == (
        f'{overlay}/mysql.json: {{"op": "replace", "path": "/spec/template/spec/containers/0/image", '
        '"value": "mysql:8.4"}, ["mysql:8.4"]'
    )
    assert both.where(
        "StatefulSet/demo-mysql-v1", f"{pod}.containers[0].env[MYSQL_ROOT_PASSWORD].valueFrom.secretKeyRef.name"
    ) == ("oldstyle/base/mysql.yaml: name: mysql-pass [mysql-pass]")
