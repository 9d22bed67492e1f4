"""base/dataset-cache/nodes/keep.sh, run on a folder of this machine."""

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "base/dataset-cache/nodes/keep.sh"


def keep(cache: Path, full: int, teams: str = "research vision") -> str:
    settings = {
        "PATH": os.environ["PATH"],
        "TEAMS": teams,
        "OWNER": f"{os.getuid()}:{os.getgid()}",
        "FULL": str(full),
        "EVERY": "0",
    }
    done = subprocess.run(["sh", SCRIPT, cache], env=settings, check=True, capture_output=True, text=True)
    return done.stdout


def dataset(cache: Path, team: str, name: str, read: int) -> Path:
    folder = cache / team / name
    folder.mkdir(parents=True)
    (folder / "tokens.bin").write_bytes(b"tokens")
    os.utime(folder, (read, read))
    return folder


def test_each_team_gets_a_folder_that_others_cannot_read(tmp_path: Path) -> None:
    keep(tmp_path, full=101)
    assert {folder.name: oct(folder.stat().st_mode)[-3:] for folder in tmp_path.iterdir()} == {
        "research": "750",
        "vision": "750",
    }


def test_nothing_is_taken_away_while_there_is_room(tmp_path: Path) -> None:
    kept = dataset(tmp_path, "research", "a1", 1)
    assert keep(tmp_path, full=101) == ""
    assert (kept / "tokens.bin").read_bytes() == b"tokens"


def test_what_was_not_read_for_longest_goes_first_and_copies_under_way_stay(tmp_path: Path) -> None:
    dataset(tmp_path, "research", "newest", 300)
    dataset(tmp_path, "vision", "with a blank", 100)
    dataset(tmp_path, "research", "older", 200)
    under_way = dataset(tmp_path, "research", ".part-x", 1)

    said = keep(tmp_path, full=0)

    assert [line.rpartition("/")[2] for line in said.splitlines()] == ["with a blank", "older", "newest"]
    assert list(tmp_path.glob("*/[!.]*")) == []
    assert under_way.is_dir()
