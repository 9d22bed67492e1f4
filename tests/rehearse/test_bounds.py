"""Where the pods of a rehearsal can have a cgroup of their own, they have it."""

from pathlib import Path

import pytest

from trainyard.rehearse.bounds import bounds


def groups(folder: Path, *names: str, bounded: str) -> Path:
    """A tree like that of cgroup v2, in which one group bounds memory and processes of those below it."""
    for name in ("", *names):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "cgroup.subtree_control").write_text("memory pids\n" if name == bounded else "cpu\n")
    return folder


@pytest.mark.claim("rehearsal-is-bounded")
def test_the_nearest_group_that_bounds_those_below_gets_another(tmp_path: Path) -> None:
    tree = groups(tmp_path / "cgroup", "user", "user/shell", bounded="user")
    (tmp_path / "own").write_text("1:name=systemd:/x\n0::/user/shell\n")
    left = tree / "user" / "trainyard-rehearsal-1"
    left.mkdir()

    found = bounds(tmp_path, tree, tmp_path / "own")

    assert found.cgroup is not None
    assert found.cgroup.parent == tree / "user"
    assert (found.cgroup / "memory.max").read_text() == str(found.memory)
    assert int((found.cgroup / "pids.max").read_text()) > 1000
    assert str(found.cgroup) in found.words()
    assert "by a cgroup" in found.told
    assert not left.exists()


@pytest.mark.claim("rehearsal-is-bounded")
def test_without_such_a_group_the_look_each_second_is_told(tmp_path: Path) -> None:
    tree = groups(tmp_path / "cgroup", "user", bounded="elsewhere")
    (tmp_path / "own").write_text("9:memory:/x\n0::/user\n")

    found = bounds(tmp_path, tree, tmp_path / "own")

    assert found.cgroup is None
    assert "looked at each second" in found.told
