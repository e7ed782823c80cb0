"""Starts one container of the one-machine mode: a process in its own mount and PID namespaces.

The container sees a read-only root made of the machine's system folders and the Python environment, its volumes at
the paths it expects, its own ``/proc``, and is PID 1, so that everything it started ends with it. It runs as the user
asked for when started by root, and inside a user namespace otherwise. This gives a container's *view*, for trying and
testing; it is no isolation: network, processes' host view and kernel are shared.

Run as a program (``python -m magos.local.node.sandbox FILE``): reads the JSON specification, removes the file (it
holds the environment), starts the container, passes SIGTERM and SIGINT on and exits with its status (128 + n for signal
n). Nothing else of Magos is imported: it starts fast and stays single-threaded, which ``fork`` after ``unshare`` needs.

Keys of the specification: ``root`` (an empty folder), ``system`` (paths shown read-only as they are), ``mounts`` (list
of ``source``, ``target``, ``readOnly``), ``uid``, ``gid``, ``workingDir``, ``env``, ``argv``.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

START_FAILED = 120
"""Exit code of a sandbox that could not be set up; the reason stands on standard error."""

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWIPC = 0x00020000, 0x10000000, 0x20000000, 0x08000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_NOATIME, _MS_BIND, _MS_REC, _MS_PRIVATE, _MS_RELATIME = 1024, 4096, 16384, 1 << 18, 1 << 21
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_KEPT_FLAGS = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC | _MS_NOATIME | _MS_RELATIME
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

_libc = ctypes.CDLL(None, use_errno=True)


class SandboxError(Exception):
    """The sandbox could not be set up; the text says at which step and why."""


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise SandboxError(f"{what}: {os.strerror(code)}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    _check(
        _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()),
        f"mounting {source} at {target}",
    )


def _bind(source: str, target: str, *, read_only: bool) -> None:
    _mount(source, target, "", _MS_BIND | _MS_REC)
    if read_only:
        # Inside a user namespace the kernel refuses a remount that drops flags, so it repeats them.
        kept = os.statvfs(target).f_flag & _KEPT_FLAGS
        if not kept & _MS_NOATIME:
            kept |= _MS_RELATIME
        _mount("none", target, "", _MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)


def _unshare_user(uid: int, gid: int) -> None:
    """Enter a user namespace in which the ordinary user that started us appears as ``uid``:``gid``."""
    outside_uid, outside_gid = os.geteuid(), os.getegid()
    _check(_libc.unshare(_CLONE_NEWUSER), "creating a user namespace (is kernel.unprivileged_userns_clone off?)")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {outside_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {outside_gid} 1")


def _place(root: Path, target: str, source: str) -> str:
    """Create the mount point for ``source`` at ``target`` below the new root and return its path."""
    point = root / target.lstrip("/")
    if point.exists():  # inside a folder that is shown already, and perhaps read-only
        return str(point)
    if Path(source).is_dir():
        point.mkdir(parents=True, exist_ok=True)
    else:
        point.parent.mkdir(parents=True, exist_ok=True)
        point.touch()
    return str(point)


def _show(root: Path, path: Path, absent: list[str]) -> None:
    """Show a path of the machine read-only.

    If a mount point below a folder does not exist, an empty folder takes its place, with each of its entries shown, so
    that the mount point can be created in it.
    """
    within = [target for target in absent if Path(target).is_relative_to(path)]
    if path.is_symlink():
        (root / str(path).lstrip("/")).symlink_to(path.readlink())
    elif within and path.is_dir():
        (root / str(path).lstrip("/")).mkdir(parents=True, exist_ok=True)
        for entry in sorted(path.iterdir()):
            _show(root, entry, within)
    elif path.exists():
        _bind(str(path), _place(root, str(path), str(path)), read_only=True)


def _build_root(spec: dict[str, Any]) -> None:
    root = Path(spec["root"])
    _check(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None), "making mounts private")
    _mount("tmpfs", str(root), "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755,size=16m")
    for folder in ("proc", "dev/shm", "tmp", "var/run", "run"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    absent = [mount["target"] for mount in spec["mounts"] if not Path(mount["target"]).exists()]
    for path in spec["system"]:
        _show(root, Path(path), absent)
    for device in _DEVICES:
        _bind(f"/dev/{device}", _place(root, f"/dev/{device}", f"/dev/{device}"), read_only=False)
    (root / "dev/fd").symlink_to("/proc/self/fd")
    _mount("tmpfs", str(root / "dev/shm"), "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777,size=64m")
    _mount("proc", str(root / "proc"), "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    # Shallow mounts first, so that a volume inside a volume lands on top.
    for mount in sorted(spec["mounts"], key=lambda entry: entry["target"].count("/")):
        _bind(mount["source"], _place(root, mount["target"], mount["source"]), read_only=mount["readOnly"])
    _mount("none", str(root), "", _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV)
    os.chroot(root)


def _become(uid: int, gid: int) -> None:
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([gid])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbidding new privileges")


def _run_container(spec: dict[str, Any]) -> None:
    """Be PID 1 of the container; returns only by raising."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "tying the container to its starter")
    _build_root(spec)
    _become(spec["uid"], spec["gid"])
    # Changing the user clears the tie made above.
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "tying the container to its starter")
    os.chdir(spec["workingDir"] or "/")
    os.umask(0o022)
    environment: dict[str, str] = spec["env"]
    os.execvpe(spec["argv"][0], spec["argv"], environment)  # noqa: S606  the container's own command


def _wait(child: int) -> int:
    def forward(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    while True:
        pid, status = os.waitpid(child, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def main() -> int:
    """Read the specification, start the container and return its exit code."""
    file = Path(sys.argv[1])
    spec: dict[str, Any] = json.loads(file.read_bytes())
    file.unlink()
    try:
        _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "tying the sandbox to its starter")
        if os.geteuid() != 0:
            _unshare_user(spec["uid"], spec["gid"])
        _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWIPC), "creating namespaces")
    except (SandboxError, OSError) as error:
        print(f"[sandbox] {error}", file=sys.stderr)
        return START_FAILED
    child = os.fork()
    if child == 0:
        try:
            _run_container(spec)
        except (SandboxError, OSError) as error:
            print(f"[sandbox] {error}", file=sys.stderr)
        os._exit(START_FAILED)
    return _wait(child)


if __name__ == "__main__":
    sys.exit(main())
