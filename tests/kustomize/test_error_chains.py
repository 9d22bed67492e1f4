"""Kustomize's error chains end as one readable line, with the place where that is known."""

from pathlib import Path

import pytest

from trainyard.kustomize.error_chains import Cause, explain
from trainyard.kustomize.render import Rendering, render

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 1}]}\n"
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
REPLACE = (
    "replacements: [{{source: {{kind: ConfigMap, fieldPath: {source}}}, "
    "targets: [{{select: {{kind: Service}}, fieldPaths: ['{target}']}}]}}]\n"
)


def failure(root: Path, kustomization: str, files: dict[str, str]) -> Rendering:
    standard = {"job/kustomization.yaml": kustomization, "job/web.yaml": SERVICE, "job/settings.yaml": SETTINGS}
    for name, content in (standard | files).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (rendering,) = render(root, ["job"])
    return rendering


@pytest.mark.parametrize(
    ("kustomization", "files", "error", "place"),
    [
        pytest.param(
            "resources: [../base/none]\n",
            {},
            "base/none does not exist",
            ("job/kustomization.yaml", 0, "../base/none"),
            id="missing base",
        ),
        pytest.param(
            "resources: [../base]\n",
            {
                "base/kustomization.yaml": "resources: [../lower]\n",
                "lower/kustomization.yaml": "resources: [gone.yaml]\n",
            },
            "lower/gone.yaml does not exist",
            ("lower/kustomization.yaml", 0, "gone.yaml"),
            id="missing file two bases down",
        ),
        pytest.param(
            "resources: [../base]\n",
            {"base/readme.md": "no kustomization\n"},
            "base holds no kustomization.yaml",
            ("job/kustomization.yaml", 0, "../base"),
            id="base without kustomization",
        ),
        pytest.param(
            "resources: [web.yaml]\ntransformers: [../wiring]\n",
            {},
            "wiring does not exist",
            ("job/kustomization.yaml", 0, "../wiring"),
            id="missing wiring",
        ),
        pytest.param(
            "resources: [web.yaml]\ncomponents: [../queue]\n",
            {},
            "queue does not exist",
            ("job/kustomization.yaml", 0, ""),
            id="missing component",
        ),
        pytest.param(
            "resources: [../base/web.yaml]\n",
            {"base/web.yaml": SERVICE},
            "base/web.yaml lies outside job: a kustomization names files below it, and other folders whole",
            ("job/kustomization.yaml", 0, "../base/web.yaml"),
            id="file of another folder",
        ),
        pytest.param(
            "resources:\n- web.yaml\n  - ../base\n",
            {},
            "web.yaml - ../base is not a path: are two lines of a list indented unequally?",
            ("job/kustomization.yaml", 0, "web.yaml - ../base"),
            id="two list items in one",
        ),
        pytest.param(
            "resources: [web.yaml]\npatches: [{path: patch.yaml}]\n",
            {},
            "patch patch.yaml does not exist: there is no job/patch.yaml",
            ("job/kustomization.yaml", 0, "patch.yaml"),
            id="missing patch",
        ),
        pytest.param(
            "resources: [web.yaml]\npatches: [{path: patch.yaml}]\n",
            {"job/patch.yaml": SERVICE.replace("web", "other")},
            "patch of Service/other matches no object",
            ("job/kustomization.yaml", 0, ""),
            id="patch without match",
        ),
        pytest.param(
            "resources: [web.yaml]\npatches: [{path: patch.yaml}]\n",
            {"job/patch.yaml": "spec: 1\n"},
            "patch patch.yaml is neither a part of an object nor a list of JSON 6902 operations",
            ("job/kustomization.yaml", 0, "patch.yaml"),
            id="patch of nothing",
        ),
        pytest.param(
            "resources: [web.yaml]\n" + REPLACE.format(source="data.a", target="metadata.name"),
            {},
            "replacement source ConfigMap matches no object: its field data.a is wanted",
            ("job/kustomization.yaml", 0, "data.a"),
            id="missing replacement source",
        ),
        pytest.param(
            "resources: [web.yaml, settings.yaml, more.yaml]\n"
            + REPLACE.format(source="data.a", target="metadata.name"),
            {"job/more.yaml": SETTINGS.replace("settings", "more")},
            "replacement source ConfigMap matches more than one object: its field data.a is wanted",
            ("job/kustomization.yaml", 0, "data.a"),
            id="doubled replacement source",
        ),
        pytest.param(
            "resources: [web.yaml, settings.yaml]\n" + REPLACE.format(source="data.none", target="metadata.name"),
            {},
            "replacement source ConfigMap has no field data.none",
            ("job/kustomization.yaml", 0, "data.none"),
            id="missing replacement field",
        ),
        pytest.param(
            "resources: [web.yaml, settings.yaml]\n"
            + REPLACE.format(source="data.a", target="spec.ports.[name=x].port"),
            {},
            "replacement target has no field spec.ports.[name=x].port",
            ("job/kustomization.yaml", 0, "spec.ports.[name=x].port"),
            id="missing replacement target",
        ),
        pytest.param(
            "resource: [web.yaml]\n",
            {},
            "the kustomization of job has a field resource that kustomize does not know",
            ("job/kustomization.yaml", 0, "resource"),
            id="misspelt field",
        ),
        pytest.param(
            "resources: web.yaml\n",
            {},
            "resources in the kustomization of job must be a list, not string",
            ("job/kustomization.yaml", 0, "resources"),
            id="field of the wrong type",
        ),
        pytest.param(
            "resources: [web.yaml\n",
            {},
            "the kustomization of job is not YAML: did not find expected ',' or ']'",
            ("job/kustomization.yaml", 1, ""),
            id="broken kustomization",
        ),
        pytest.param(
            "resources: [../base]\n",
            {"base/kustomization.yaml": "resources: [web.yaml]\n", "base/web.yaml": "a: b\n c: d\n"},
            "base/web.yaml is not YAML: mapping values are not allowed in this context",
            ("base/web.yaml", 2, ""),
            id="broken resource",
        ),
        pytest.param(
            "resources: [web.yaml]\n",
            {"job/web.yaml": "a: b\n"},
            "web.yaml holds a document that is not a Kubernetes object",
            ("job/kustomization.yaml", 0, "web.yaml"),
            id="no object",
        ),
        pytest.param(
            "resources: [web.yaml]\n",
            {"job/web.yaml": "apiVersion: v1\nkind: Service\n"},
            "web.yaml holds a Service without metadata.name",
            ("job/kustomization.yaml", 0, "web.yaml"),
            id="no name",
        ),
        pytest.param(
            "resources: [web.yaml, again.yaml]\n",
            {"job/again.yaml": SERVICE},
            "object Service/web of again.yaml is there already",
            ("job/kustomization.yaml", 0, "again.yaml"),
            id="object twice",
        ),
        pytest.param(
            "resources: [web.yaml]\n",
            {"job/web.yaml": SERVICE + "kind: Job\n"},
            "Service/web has the field kind twice",
            ("job/kustomization.yaml", 0, "kind"),
            id="field twice",
        ),
        pytest.param(
            "resources: [web.yaml]\n",
            {"job/web.yaml": SERVICE + "weight: .inf\n"},
            "Service/web has the value +Inf, which is not a number in JSON",
            ("job/kustomization.yaml", 0, ""),
            id="infinity",
        ),
        pytest.param(
            "",
            {},
            "the kustomization of job is empty",
            ("job/kustomization.yaml", 0, ""),
            id="empty kustomization",
        ),
        pytest.param(
            "resources: [web.yaml]\n",
            {"job/kustomization.yml": "resources: [web.yaml]\n"},
            "job holds more than one kustomization file",
            ("job/kustomization.yaml", 0, "job"),
            id="two kustomizations",
        ),
        pytest.param(
            "configMapGenerator: [{name: x, literals: [a=1, a=2]}]\n",
            {},
            "configmap x illegally repeats the key `a`",
            ("job/kustomization.yaml", 0, ""),
            id="kustomize's own words where they are clear",
        ),
    ],
)
def test_error_is_one_readable_line(
    tmp_path: Path, kustomization: str, files: dict[str, str], error: str, place: tuple[str, int, str]
) -> None:
    rendering = failure(tmp_path, kustomization, files)

    assert rendering.error == error
    assert (rendering.error_file, rendering.error_line, rendering.error_text) == place
    assert (rendering.objects, rendering.yaml) == ([], "")


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    import os

    failure(tmp_path, "resources: [web.yaml]\n", {})
    (tmp_path / "job" / "web.yaml").chmod(0)
    if os.access(tmp_path / "job" / "web.yaml", os.R_OK):
        pytest.skip("this user may read every file")

    (rendering,) = render(tmp_path, ["job"])

    assert (rendering.error, rendering.error_file) == ("job/web.yaml: permission denied", "job/web.yaml")


def test_an_error_that_is_not_known_is_shown_as_it_is() -> None:
    assert explain("something new went wrong", "jobs/a") == Cause("something new went wrong", folder="jobs/a")
