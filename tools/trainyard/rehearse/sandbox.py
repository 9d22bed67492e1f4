"""The command that runs a container: bubblewrap, with a root of this machine's programs and the pod's own files.

No word of it comes from a manifest: whatever a manifest names, entry.py looks up inside.
"""

import os
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trainyard.errors import Fault
from trainyard.home import HOME
from trainyard.rehearse.orders import BIN, NOTES, OWN, SITE, VOLUMES, Orders

TRAINER = HOME / ".tools" / "trainer"
INSIDE = Path(__file__).resolve().parent / "inside"
ENTRY = Path(__file__).resolve().parent / "entry.py"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "debian_version",
    "gai.conf",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "libibverbs.d",
    "libnl-3",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "openmpi",
    "os-release",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
"""What programs need of this machine's /etc, and what holds no secret on any; nothing else of it is shown."""
_SETTINGS = (
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0", "run it as root, or "),
    ("kernel.unprivileged_userns_clone", "0", "1", "run it as root, or "),
    ("user.max_user_namespaces", "0", "10000", ""),
)
"""Settings of the kernel that forbid user namespaces: name, the value that does, one that does not, what else helps."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How containers are walled off on this machine."""

    bubblewrap: str

    def command(self, orders: Orders, *, notes: Path, resolv_conf: Path, hosts: Path, status: int) -> list[str]:
        """The command line that runs a container by orders that it inherits; its state is told on `status`."""
        words = [self.bubblewrap, "--unshare-pid", "--unshare-uts", "--unshare-ipc", "--unshare-cgroup-try"]
        words += ["--as-pid-1", "--die-with-parent", "--new-session", "--clearenv", "--json-status-fd", str(status)]
        words += ["--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys", "--perms", "1777", "--tmpfs", "/tmp"]
        words += ["--dir", "/run/sshd", "--dir", "/root", "--dir", "/etc/ssh", "--dir", "/opt/trainyard"]
        words += ["--dir", OWN, "--dir", VOLUMES, "--dir", BIN]
        prefix = _python_prefix()
        if not prefix.is_relative_to("/usr"):
            for above in (
                *reversed(prefix.parents[:-1]),
                prefix,
            ):  # bubblewrap makes those that are missing root's alone
                words += ["--dir", str(above)]
            words += ["--ro-bind", str(prefix), str(prefix)]
        for place, (kind, source) in _root(notes, resolv_conf, hosts).items():
            words += [kind, str(source), place]
        for number, folder in orders.folders.items():
            words += ["--bind", str(folder), f"{VOLUMES}/{number}"]
        words += ["--chdir", "/", "--", "/opt/trainer/bin/python", "-I", "-S", f"{OWN}/entry.py"]
        return [*words, str(orders.descriptor)]


def _root(notes: Path, resolv_conf: Path, hosts: Path) -> dict[str, tuple[str, Path | str]]:
    """What a container sees of this machine, and where; folders before what lies in them."""
    mounts: dict[str, tuple[str, Path | str]] = {}
    for path in (*_SYSTEM, *(f"/etc/{name}" for name in _ETC)):
        if os.path.islink(path):
            mounts[path] = ("--symlink", os.readlink(path))
        elif os.path.exists(path):
            mounts[path] = ("--ro-bind", Path(path))
    for version in Path("/etc").glob("python3*"):
        mounts[str(version)] = ("--ro-bind", version)
    return mounts | {
        "/etc/resolv.conf": ("--ro-bind", resolv_conf),
        "/etc/hosts": ("--ro-bind", hosts),
        "/opt/trainer": ("--ro-bind", TRAINER.resolve()),
        "/opt/trainyard/trainer": ("--ro-bind", HOME / "trainer"),
        SITE: ("--ro-bind", INSIDE),
        NOTES: ("--bind", notes),
        f"{OWN}/entry.py": ("--ro-bind", ENTRY),
    }


def sandbox() -> Sandbox:
    """The sandbox of this machine. Fault where there is none."""
    found = shutil.which("bwrap")
    if found is None:
        raise Fault("bubblewrap is not on PATH; install it (Debian and Ubuntu: apt-get install bubblewrap)")
    plain = [found, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--unshare-pid", "--unshare-user"]
    done = subprocess.run([*plain, "--", "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Fault(f"no user namespace can be made here ({said}){forbidden()}")
    for path in (TRAINER / "pyvenv.cfg", HOME / "trainer" / "__init__.py", INSIDE / "sitecustomize.py"):
        if os.geteuid() == 0 and path.exists() and not readable(path):
            raise Fault(
                f"{path} can be read by its owner alone, and pods are other users: chmod -R go+rX {path.parent}"
            )
    return Sandbox(found)


def readable(path: Path) -> bool:
    """Whether every user may read a file."""
    return bool(path.stat().st_mode & stat.S_IROTH)


def forbidden(settings: Path = Path("/proc/sys")) -> str:
    """What forbids user namespaces, and what allows them; empty where that cannot be told."""
    for setting, refusing, allowed, other in _SETTINGS:
        with suppress(OSError):
            if settings.joinpath(*setting.split(".")).read_text().strip() == refusing:
                return f": {setting} is {refusing}; {other}allow them: sysctl -w {setting}={allowed}"
    return ""


@cache
def _python_prefix() -> Path:
    """Where the Python lies that the trainer's environment was made from."""
    python = TRAINER / "bin" / "python"
    if not python.exists():
        raise Fault(f"{python} is missing: run python3 tools/bootstrap.py trainer")
    return python.resolve().parents[1] if python.is_symlink() else Path(sys.base_prefix)
