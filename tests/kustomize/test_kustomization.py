"""The graph of kustomizations: which files it reads, and what it refuses before anything is rendered."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.kustomize.replay.cases import CASES
from tests.kustomize.replay.support import write
from trainyard import limits
from trainyard.errors import InputError
from trainyard.kustomize.kustomization import files_read, load_graph
from trainyard.yaml.sources import Sources

RENDER = Path(__file__).parents[2] / ".tools" / "bin" / "render"
THING = "=== over/thing.yaml\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\n"


def refusal(root: Path, tree: str, folder: str = "over") -> str:
    write(root, tree)
    with pytest.raises(InputError) as caught:
        load_graph(Sources(root), folder)
    return str(caught.value)


REMOTE = "; only files of this repository are rendered"
PLUGIN = 'plugins are not allowed: a transformer or generator has apiVersion "builtin"'
HELM = "is not allowed: charts run a program and fetch from outside; commit what they render"
REFUSED = {
    "resources:\n- https://example.com/x.yaml": f"3:3: https://example.com/x.yaml is remote{REMOTE}",
    "resources: [github.com/a/b]": f"2:13: github.com/a/b is remote{REMOTE}",
    "resources: ['git@github.com:a/b.git']": f"2:13: git@github.com:a/b.git is remote{REMOTE}",
    "resources: ['ssh://git@h/a']": f"2:13: ssh://git@h/a is remote{REMOTE}",
    "resources: ['git::https://h/a']": f"2:13: git::https://h/a is remote{REMOTE}",
    "resources: ['../base?ref=v1']": f"2:13: ../base?ref=v1 is remote{REMOTE}",
    "bases: ['HTTP://h/a']": f"2:9: HTTP://h/a is remote{REMOTE}",
    "components: [example.com/a.git]": f"2:14: example.com/a.git is remote{REMOTE}",
    "patches:\n- path: https://h/p.yaml": f"3:9: https://h/p.yaml is remote{REMOTE}",
    "patchesStrategicMerge: ['https://h/p.yaml']": f"2:25: https://h/p.yaml is remote{REMOTE}",
    "configMapGenerator:\n- {name: a, files: ['k=https://h/f']}": f"3:21: https://h/f is remote{REMOTE}",
    "openapi: {path: 'https://h/s'}": f"2:17: https://h/s is remote{REMOTE}",
    "crds: ['https://h/s']": f"2:8: https://h/s is remote{REMOTE}",
    "transformers: ['https://h/s']": f"2:16: https://h/s is remote{REMOTE}",
    "replacements: [{path: 'https://h/s'}]": f"2:23: https://h/s is remote{REMOTE}",
    "resources: [/etc/passwd]": "2:13: /etc/passwd is absolute; write it relative to over",
    "resources: [../../x]": "2:13: ../../x leads out of the repository",
    "resources: [out]": "2:13: out leads out of the repository through a symlink",
    "patches: [{path: out/p.yaml}]": "2:18: out/p.yaml leads out of the repository through a symlink",
    "resources: [../none]": "2:13: ../none names a folder that does not exist",
    "resources: [none.yaml]": "2:13: none.yaml names a file that does not exist",
    "components: [none]": "2:14: none names a folder that does not exist",
    "resources: ['']": "2:13: a path is missing: this entry is not text",
    "transformers: [{target: {kind: Job}, patch: x}]": "2:16: a patch stands where folders and files are listed",
    "resources: [{a: b}]": "2:13: a path is missing: this entry is not text",
    "resources: thing.yaml": "2:12: resources takes a list",
    "resources: [../empty]": "2:13: folder empty has no kustomization.yaml",
    "patches: [{path: ../other/p.yaml}]": (
        "2:18: ../other/p.yaml is not below over; kustomize reads files only from there"
    ),
    "patches: [{path: none.yaml}]": "2:18: none.yaml names a file that does not exist",
    "configMapGenerator: [{name: a, envs: [none.env]}]": "2:39: none.env names a file that does not exist",
    "secretGenerator: [{name: a, env: none.env}]": "2:34: none.env names a file that does not exist",
    "configurations: [none.yaml]": "2:18: none.yaml names a file that does not exist",
    "helmCharts: [{name: x}]": f"2:1: helmCharts {HELM}",
    "helmGlobals: {}": f"2:1: helmGlobals {HELM}",
    "helmChartInflationGenerator: []": f"2:1: helmChartInflationGenerator {HELM}",
    "generators: [chart.yaml]": "4:7: HelmChartInflationGenerator is not allowed as a transformer or generator",
    "transformers: [function.yaml]": "5:35: functions (exec or container) are not allowed: they run a program",
    "transformers: [../plugins]": f"1:13: {PLUGIN}",
    "validators: [plugin.yaml]": f"1:13: {PLUGIN}",
    "generators:\n- |-\n  apiVersion: someteam.example.com/v1\n  kind: ChartInflator\n  metadata: {name: x}": (
        f"4:15: {PLUGIN}"
    ),
    "ressources: []": '2:1: kustomizations have no field "ressources"; did you mean resources?',
    "Resources: []": '2:1: kustomizations have no field "Resources"; did you mean resources?',
    "nonsense: []": '2:1: kustomizations have no field "nonsense"',
    "patches: [{Path: x}]": '2:12: an entry of patches has no field "Path"; did you mean path?',
    "patches: [x.yaml]": "2:11: an entry of patches is a map",
    "resources: [../circle]": ("1:13: kustomizations name one another in a circle: over -> circle -> over"),
    "resources: [.]": "2:13: kustomizations name one another in a circle: over -> over",
    "patches: [{path: broken.yaml}]": "1:4: a value may not start with @: put it in quotes",
    "---\nresources: []\n---\nresources: []": "3:1: a kustomization file holds one document; a second starts here",
}
REST = """
=== over/chart.yaml
apiVersion: builtin
metadata: {name: x}
# a comment
kind: HelmChartInflationGenerator
=== over/function.yaml
apiVersion: builtin
kind: PatchTransformer
metadata:
  name: x
  annotations: {a: b, b: 'c d e', config.kubernetes.io/function: "exec: {path: ./x}"}
=== over/plugin.yaml
apiVersion: example.com/v1
kind: Validator
metadata: {name: x}
=== plugins/kustomization.yaml
resources: [plugin.yaml]
=== plugins/plugin.yaml
apiVersion: example.com/v1
kind: Plugin
metadata: {name: x}
=== other/p.yaml
a: b
=== circle/kustomization.yaml
resources: [../over]
=== over/broken.yaml
a: @x
=== empty/file.txt
"""


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(text: str, tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "repo"
    outside.mkdir()
    (outside / "p.yaml").write_text("a: b\n")
    (root / "over").mkdir(parents=True)
    (root / "over" / "out").symlink_to("../../outside")
    found = refusal(root, f"=== over/kustomization.yaml\nkind: Kustomization\n{text}\n{REST}")
    place, _, message = REFUSED[text].partition(": ")
    file, _, told = found.partition(":")
    assert told == f"{place}: {message}"
    assert (root / file).is_file()


def test_places_of_folders(tmp_path: Path) -> None:
    assert refusal(tmp_path, THING, "over") == "over: folder has no kustomization.yaml"
    assert refusal(tmp_path, "", "none") == "none: folder does not exist"
    assert refusal(tmp_path, "", "..") == "..: folder is outside the repository"
    two = "=== two/kustomization.yaml\nresources: []\n=== two/Kustomization\nresources: []\n"
    assert refusal(tmp_path, two, "two") == (
        "two/Kustomization: folder has 2 kustomization files; keep one (two/kustomization.yaml, two/Kustomization)"
    )
    assert refusal(tmp_path, "=== void/kustomization.yaml\n# nothing\n", "void") == (
        "void/kustomization.yaml: kustomization is empty"
    )


def test_bounds(tmp_path: Path) -> None:
    deep = "".join(
        f"=== d{i}/kustomization.yaml\nresources: [../d{i + 1}]\n" for i in range(limits.KUSTOMIZATION_DEPTH + 2)
    )
    assert refusal(tmp_path, deep, "d0") == (
        "d15/kustomization.yaml:1:13: kustomizations name one another more than 16 deep"
    )
    # Eight folders that name the next twice would be evaluated 255 times.
    wide = "".join(f"=== w{i}/kustomization.yaml\nresources: [../w{i + 1}, ../w{i + 1}]\n" for i in range(7))
    wide += "=== w7/kustomization.yaml\nresources: []\n"
    assert refusal(tmp_path, wide, "w0") == ("w0/kustomization.yaml:1:20: pulls in more than 200 kustomizations")


def test_an_inline_patch_names_no_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        THING + "=== over/kustomization.yaml\nresources: [thing.yaml]\n"
        "patchesStrategicMerge:\n- |-\n  apiVersion: example.com/v1\n  kind: Thing\n  metadata: {name: x}\n  a: 1\n",
    )
    assert load_graph(Sources(tmp_path), "over").files == {"over/kustomization.yaml", "over/thing.yaml"}


@pytest.mark.parametrize("name", CASES)
def test_files_are_those_that_the_renderer_reads(name: str, tmp_path: Path) -> None:
    assert RENDER.exists(), "the renderer is not built: run ./tools/test once"
    write(tmp_path, CASES[name][0])
    done = subprocess.run([RENDER, "-root", tmp_path], input="over\n", capture_output=True, text=True, timeout=60)
    answer = json.loads(done.stdout)
    assert answer["error"] == ""
    read = {file for file, what in answer["reads"].items() if len(what) == 64}
    assert files_read(tmp_path, "over") == read
