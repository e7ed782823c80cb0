"""Runs one container of a pod as a sandboxed process and reports how it ended."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import anyio
from msgspec import Struct

import magos
from magos.api.kube import Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, PodManifest
from magos.local.controlplane.credentials import write_private
from magos.local.node.sandbox import START_FAILED
from magos.local.node.sources import PodConfigError
from magos.local.node.volumes import PodVolumes
from magos.local.processes import ChildProcess, ProcessSpec, read_tail, start

__all__ = ["ContainerRun", "PodFolder", "image_environment", "now_text"]

_MESSAGES_LIMIT = 12 * 1024  # the kubelet shares this among all containers of a pod ...
_MESSAGE_LIMIT = 4 * 1024  # ... and gives none more than this
_DEFAULT_USER = 65532
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc")

# Where a container finds this Python environment. Not where it lies on the machine: a volume's mount path may be there.
_ENVIRONMENT = "/opt/magos"
_SOURCES = "/opt/magos-src"
_LAUNCHERS = "/opt/magos-bin"
_PROGRAMS = "/opt/magos-programs"
_LAUNCHER = f"""\
#!/bin/sh
PYTHONPATH={_SOURCES} exec {_ENVIRONMENT}/bin/python -c 'from magos.apps.job import main; main()' "$@"
"""


def now_text() -> str:
    """Return the time as Kubernetes writes it."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def image_environment() -> dict[str, str]:
    """Return what the image would set: this Python environment stands for every image."""
    return {
        "PATH": f"{_LAUNCHERS}:{_PROGRAMS}:{_ENVIRONMENT}/bin:/usr/local/bin:/usr/bin:/bin",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }


class PodFolder(Struct, frozen=True):
    """The files of one pod on this machine; ``programs`` are what the image has besides our own."""

    path: Path
    programs: tuple[Path, ...] = ()

    def log(self, container: str) -> Path:
        """Where a container's output goes."""
        return self.path / "logs" / f"{container}.log"

    def termination(self, container: str) -> Path:
        """Where a container may leave its termination message."""
        return self.path / "termination" / container

    def discard_volumes(self) -> None:
        """Remove what ends with the pod's last container, as a kubelet does; logs and messages stay."""
        for name in ("volumes", "roots"):
            shutil.rmtree(self.path / name, ignore_errors=True)

    def root(self, container: str) -> Path:
        """The mount point of a container's root."""
        return self.path / "roots" / container


class ContainerRun:
    """One container of one pod, from its start to its end. Start it from the event loop's own thread."""

    def __init__(self, pod: PodManifest, container: Container, folder: PodFolder) -> None:
        self.container = container
        self._pod = pod
        self._folder = folder
        self._child: ChildProcess | None = None
        self._started_at = ""

    async def start(self, environment: Mapping[str, str], volumes: PodVolumes) -> ContainerState:
        """Start the process; ``PodConfigError`` if a mount cannot be made. Returns the state to report."""
        file = await anyio.to_thread.run_sync(self._prepare, environment, volumes)
        spec = ProcessSpec(
            name=f"container {self.container.name} of pod {self._pod.metadata.namespace}/{self._pod.metadata.name}",
            argv=[sys.executable, "-m", "magos.local.node.sandbox", str(file)],
            log_file=self._folder.log(self.container.name),
            env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(_package_root())},
        )
        self._child = await start(spec)
        self._started_at = now_text()
        return ContainerState(running=ContainerStateRunning(started_at=self._started_at))

    def terminate(self) -> None:
        """Ask the container to end (SIGTERM to its first process)."""
        if self._child is not None:
            self._child.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the container now, with everything in it."""
        if self._child is not None:
            self._child.send_signal(signal.SIGKILL)

    async def wait(self) -> ContainerState:
        """Wait for the end and return the state to report."""
        if self._child is None:
            raise RuntimeError("the container was not started")
        code = await self._child.wait()
        code = code if code >= 0 else 128 - code
        message = await anyio.to_thread.run_sync(self._message, code)
        reason = "Completed" if code == 0 else ("StartError" if code == START_FAILED else "Error")
        return ContainerState(
            terminated=ContainerStateTerminated(
                exit_code=code,
                reason=reason,
                message=message,
                started_at=self._started_at,
                finished_at=now_text(),
            )
        )

    async def close(self) -> None:
        """End the container if it still runs, and reap it."""
        if self._child is not None:
            await self._child.stop(grace=0)

    def _prepare(self, environment: Mapping[str, str], volumes: PodVolumes) -> Path:
        container, folder = self.container, self._folder
        root = folder.root(container.name)
        root.mkdir(parents=True, exist_ok=True)
        message = folder.termination(container.name)
        message.parent.mkdir(parents=True, exist_ok=True)
        message.touch()
        message.chmod(0o666)
        mounts = [
            {"source": str(volumes.mount_source(mount)), "target": mount.mount_path, "readOnly": mount.read_only}
            for mount in container.volume_mounts
        ]
        mounts.append(
            {
                "source": str(message),
                "target": container.termination_message_path or "/dev/termination-log",
                "readOnly": False,
            }
        )
        mounts += [
            {"source": str(source), "target": target, "readOnly": True}
            for source, target in (
                (self._accounts(), "/etc/passwd"),
                (self._launchers(), _LAUNCHERS),
                (sys.prefix, _ENVIRONMENT),
                (Path(str(magos.__file__)).parent, f"{_SOURCES}/magos"),
                *((program, f"{_PROGRAMS}/{program.name}") for program in self._folder.programs),
            )
        ]
        uid, gid = self._user()
        argv = [*container.command, *container.args]
        if not argv:
            raise PodConfigError(f'container "{container.name}" has no command, and images have no entry point here')
        spec = {
            "root": str(root),
            "system": [*_SYSTEM, *self._interpreter()],
            "mounts": mounts,
            "uid": uid,
            "gid": gid,
            "workingDir": container.working_dir,
            "env": dict(environment),
            "argv": argv,
        }
        # The standard library's JSON carries values that are not UTF-8 (as surrogates); msgspec refuses them.
        return write_private(folder.path / f"{container.name}.json", json.dumps(spec))

    def _user(self) -> tuple[int, int]:
        own, pods = self.container.security_context, self._pod.spec.security_context
        user = group = None
        if own is not None:
            user, group = own.run_as_user, own.run_as_group
        if pods is not None:
            user = pods.run_as_user if user is None else user
            group = pods.run_as_group if group is None else group
        return (_DEFAULT_USER if user is None else user), (_DEFAULT_USER if group is None else group)

    def _accounts(self) -> Path:
        """Write the ``/etc/passwd`` of the image: ssh refuses to work for a user without an entry."""
        path = self._folder.path / "passwd"
        uid, gid = self._user()
        path.write_text(f"root:x:0:0:root:/:/usr/sbin/nologin\nmagos:x:{uid}:{gid}:magos:/tmp/home:/usr/sbin/nologin\n")
        path.chmod(0o644)
        return path

    def _launchers(self) -> Path:
        """Write the image's one program: the console script in the environment names a path of the machine."""
        folder = self._folder.path / "launchers"
        folder.mkdir(exist_ok=True)
        program = folder / "magos-job"
        if not program.exists():
            program.write_text(_LAUNCHER)
            program.chmod(0o755)
        return folder

    def _interpreter(self) -> list[str]:
        """Return the folder of the interpreter that the environment was made from; it has to be at its own path."""
        base = Path(sys.base_prefix)
        if any(base.is_relative_to(seen) for seen in _SYSTEM):
            return []
        for mount in self.container.volume_mounts:
            if base.is_relative_to(mount.mount_path):
                raise PodConfigError(f"the mount at {mount.mount_path} would hide Python at {base}; use another Python")
        return [str(base)]

    def _message(self, code: int) -> str:
        containers = len(self._pod.spec.init_containers) + len(self._pod.spec.containers)
        limit = min(_MESSAGE_LIMIT, _MESSAGES_LIMIT // containers)
        with self._folder.termination(self.container.name).open("rb") as stream:
            text = stream.read(limit).decode("utf-8", errors="replace")
        if code == START_FAILED or (
            not text and code != 0 and self.container.termination_message_policy == "FallbackToLogsOnError"
        ):
            text = read_tail(self._folder.log(self.container.name))[-2048:]
        return text


def _package_root() -> Path:
    return Path(str(magos.__file__)).parent.parent
