"""A folder of the machine that a rehearsal has no business in, and what the kernel saw happen to it."""

import ctypes
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SECRET = "c4n4ry-of-the-reviewer"
_LIBRARY = ctypes.CDLL(None, use_errno=True)
_ALL = 0x00000FFF
"""IN_ALL_EVENTS: whatever is read, written, listed, made, moved or removed in a folder."""
_EVENT = struct.Struct("=iIII")


@dataclass(frozen=True, slots=True)
class Host:
    """A home with a key, a thesis and a shell's start-up file, watched by the kernel."""

    home: Path
    before: dict[str, str]
    watch: int
    watched: dict[int, Path]

    def touched(self) -> list[str]:
        """What happened to it: names of files that were opened, read or changed, and what differs."""
        names = self._events()
        names += [f"{name} differs" for name, _ in set(_tree(self.home).items()) ^ set(self.before.items())]
        self._events()  # by looking
        return names

    def _events(self) -> list[str]:
        names = []
        with suppress(BlockingIOError):
            while events := os.read(self.watch, 1 << 16):
                at = 0
                while at < len(events):
                    number, kind, _, length = _EVENT.unpack_from(events, at)
                    at += _EVENT.size + length
                    name = events[at - length : at].rstrip(b"\0").decode(errors="replace")
                    names.append(f"{self.watched[number].name}/{name}: {kind:#x}")
        return names


@contextmanager
def host() -> Iterator[Host]:
    """A home of that kind, until the block ends."""
    home = Path(tempfile.mkdtemp(prefix="home-of-a-reviewer-"))
    try:
        for name, content in (
            (".ssh/id_rsa", SECRET),
            (".ssh/authorized_keys", ""),
            ("thesis/chapter.tex", SECRET),
            (".bashrc", f"export TOKEN={SECRET}"),
            ("joined-1.json", f'{{"rank": 7, "world": 77, "began": 0, "joined": 1, "{SECRET}": 1}}'),
        ):
            (home / name).parent.mkdir(exist_ok=True)
            (home / name).write_text(content)
        before = _tree(home)
        watch = _LIBRARY.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        folders = [home, *(path for path in home.rglob("*") if path.is_dir())]
        watched = {_LIBRARY.inotify_add_watch(watch, str(path).encode(), _ALL): path for path in folders}
        assert watch >= 0
        assert all(number >= 0 for number in watched)
        yield Host(home, before, watch, watched)
        os.close(watch)
    finally:
        shutil.rmtree(home)


def _tree(folder: Path) -> dict[str, str]:
    """Every file and folder below one, with its kind, owner and content."""
    found = {}
    for path in folder.rglob("*"):
        about = path.lstat()
        content = path.read_text() if path.is_file() and not path.is_symlink() else ""
        found[str(path.relative_to(folder))] = f"{about.st_mode:o} {about.st_uid} {about.st_size} {content}"
    return found
