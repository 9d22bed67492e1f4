"""docs/upgrade.md: a fork of an older commit, with a cluster of its own, takes what upstream did since."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.forks.forking import HOME, run, with_the_set_up

pytestmark = pytest.mark.commands

BACK = (20, 60, 100)
"""How many merges and commits of the main branch lie between the fork and now."""
REPLACED = r"""
git rm -rq jobs clusters/gpu-east clusters/gpu-north clusters/gpu-south clusters/lab-west
git mv clusters/aws-oregon clusters/eks-paris
(cd clusters/eks-paris; for part in platform flux/teams argocd; do git mv $part/research $part/vision; done)
grep -rlE 'aws-oregon|research' clusters/eks-paris | xargs sed -i 's/aws-oregon/eks-paris/g; s/\bresearch\b/vision/g'
sed -i s#git.example.com/trainyard#git.ml.internal/platform# base/gitops/repository/config-map.yaml
sed -i '1a Of our clusters alone.' docs/fabrics.md
"""


def script(upstream: Path) -> str:
    """The commands of the page, with a folder as upstream."""
    block: str
    [block] = re.findall(r"^```sh\n(.*?)^```$", (HOME / "docs" / "upgrade.md").read_text(), re.MULTILINE | re.DOTALL)
    assert block.count("https://git.example.com/trainyard/trainyard.git") == 1
    return block.replace("https://git.example.com/trainyard/trainyard.git", str(upstream))


@pytest.mark.claim("upgrade-is-a-test")
@pytest.mark.parametrize("back", BACK)
def test_a_fork_of_an_older_commit_merges_and_passes(back: int, fork: Path, tmp_path: Path) -> None:
    upstream, ours = fork, tmp_path / "ours"
    run(upstream, "git checkout -q -B main")
    old = run(HOME, f"git rev-list --first-parent --skip {back} -n 1 HEAD").strip()
    if not old:
        pytest.skip(f"the history does not go back {back} commits")
    subprocess.run(["git", "clone", "--quiet", HOME, ours], check=True)
    run(ours, f"git checkout -q -B main {old} && {REPLACED} git add --all && git commit -q -m 'Our cluster'")
    with_the_set_up(ours)

    said = run(ours, script(upstream))

    assert "there is no job yet" in said
    assert run(ours, "git status --porcelain") == ""
    assert sorted(folder.name for folder in (ours / "clusters").iterdir()) == ["eks-paris"]
    assert "git.ml.internal" in (ours / "base/gitops/repository/config-map.yaml").read_text()
    run(ours, "tools/new-job --name a --cluster eks-paris --team vision --model gpt2-355m --nodes 2 --data /data/a")
    run(ours, "tools/list-jobs && tools/lint-jobs")
    shutil.rmtree(ours)
