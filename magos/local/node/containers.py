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
from magos.api import kube
from magos.api.timestamps import format_time
from magos.local.node.sandbox import START_FAILED
from magos.local.node.sources import PodConfigError
from magos.local.node.volumes import PodVolumes
from magos.local.processes import ChildProcess, ProcessSpec, read_tail, start
from magos.privatefile import write_private

_MESSAGES_BYTES = 12 * 1024
_MESSAGE_BYTES = 4 * 1024
_FALLBACK_BYTES = 2 * 1024
"""The kubelet's limits: termination messages of a pod together, one of them, one that is taken from the log."""

_DEFAULT_USER = 65532
"""The user and group of our images."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc")

_PACKAGE = Path(str(magos.__file__)).parent

# Where a container sees this Python environment: at paths of its own, because a volume may be mounted at the real ones.
_ENVIRONMENT = "/opt/magos"
_SOURCES = "/opt/magos-src"
_LAUNCHERS = "/opt/magos-bin"
_PROGRAMS = "/opt/magos-programs"
_LAUNCHER = f"""\
#!/bin/sh
PYTHONPATH={_SOURCES} exec {_ENVIRONMENT}/bin/python -c 'from magos.apps.job import main; main()' "$@"
"""


def now_text() -> str:
    """Return the present time as Kubernetes writes it, in whole seconds."""
    return format_time(datetime.now(UTC))


def image_environment() -> dict[str, str]:
    """Return the environment variables of the image; this Python environment stands for every image."""
    return {
        "PATH": f"{_LAUNCHERS}:{_PROGRAMS}:{_ENVIRONMENT}/bin:/usr/local/bin:/usr/bin:/bin",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LANG": "C.UTF-8",
    }


class PodFolder(Struct, frozen=True):
    """The files of one pod on this machine; ``programs`` are what the image has besides Magos."""

    path: Path
    programs: tuple[Path, ...] = ()

    def log(self, container: str) -> Path:
        """Return the file of a container's output."""
        return self.path / "logs" / f"{container}.log"

    def termination(self, container: str) -> Path:
        """Return the file to which a container may write its termination message."""
        return self.path / "termination" / container

    def discard_volumes(self) -> None:
        """Remove what a kubelet removes after the pod's last container; logs and messages stay."""
        for name in ("volumes", "roots"):
            shutil.rmtree(self.path / name, ignore_errors=True)

    def root(self, container: str) -> Path:
        """Return the mount point of a container's root."""
        return self.path / "roots" / container


class ContainerRun:
    """One container of a pod, from its start to its end. Start it from the event loop's own thread."""

    def __init__(self, pod: kube.PodManifest, container: kube.Container, folder: PodFolder) -> None:
        self.container = container
        self._pod = pod
        self._folder = folder
        self._child: ChildProcess | None = None
        self._started_at = ""

    async def start(self, environment: Mapping[str, str], volumes: PodVolumes) -> kube.ContainerState:
        """Start the process and return the state to report; raises ``PodConfigError`` if a mount is impossible."""
        file = await anyio.to_thread.run_sync(self._prepare, environment, volumes)
        spec = ProcessSpec(
            name=f"container {self.container.name} of pod {self._pod.metadata.namespace}/{self._pod.metadata.name}",
            argv=[sys.executable, "-m", "magos.local.node.sandbox", str(file)],
            log_file=self._folder.log(self.container.name),
            env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(_PACKAGE.parent)},
        )
        self._child = await start(spec)
        self._started_at = now_text()
        return kube.ContainerState(running=kube.ContainerStateRunning(started_at=self._started_at))

    def terminate(self) -> None:
        """Send SIGTERM to the container's first process."""
        if self._child is not None:
            self._child.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the container with all its processes."""
        if self._child is not None:
            self._child.send_signal(signal.SIGKILL)

    async def wait(self) -> kube.ContainerState:
        """Wait for the container's end and return the state to report."""
        if self._child is None:
            raise RuntimeError(f"container {self.container.name} has not started; call start() first")
        code = await self._child.wait()
        code = code if code >= 0 else 128 - code
        message = await anyio.to_thread.run_sync(self._message, code)
        reason = "Completed" if code == 0 else ("StartError" if code == START_FAILED else "Error")
        return kube.ContainerState(
            terminated=kube.ContainerStateTerminated(
                exit_code=code,
                reason=reason,
                message=message,
                started_at=self._started_at,
                finished_at=now_text(),
            )
        )

    async def close(self) -> None:
        """Kill the container if it still runs, and reap it."""
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
        image = [
            (self._accounts(), "/etc/passwd"),
            (self._launchers(), _LAUNCHERS),
            (Path(sys.prefix), _ENVIRONMENT),
            (_PACKAGE, f"{_SOURCES}/{_PACKAGE.name}"),
            *((program, f"{_PROGRAMS}/{program.name}") for program in self._folder.programs),
        ]
        mounts = [
            *((volumes.mount_source(mount), mount.mount_path, mount.read_only) for mount in container.volume_mounts),
            (message, container.termination_message_path or "/dev/termination-log", False),
            *((source, target, True) for source, target in image),
        ]
        uid, gid = self._user()
        argv = [*container.command, *container.args]
        if not argv:
            raise PodConfigError(f'container "{container.name}" has no command, and no image here has an entry point')
        spec = {
            "root": str(root),
            "system": [*_SYSTEM, *self._interpreter()],
            "mounts": [{"source": str(source), "target": at, "readOnly": fixed} for source, at, fixed in mounts],
            "uid": uid,
            "gid": gid,
            "workingDir": container.working_dir,
            "env": dict(environment),
            "argv": argv,
        }
        file = folder.path / f"{container.name}.json"
        # The standard library's JSON carries values that are not UTF-8 (as surrogates); msgspec refuses them.
        write_private(file, json.dumps(spec).encode())
        return file

    def _user(self) -> tuple[int, int]:
        contexts = [each for each in (self.container.security_context, self._pod.spec.security_context) if each]
        users = [each.run_as_user for each in contexts if each.run_as_user is not None]
        groups = [each.run_as_group for each in contexts if each.run_as_group is not None]
        return next(iter(users), _DEFAULT_USER), next(iter(groups), _DEFAULT_USER)

    def _accounts(self) -> Path:
        """Write the image's ``/etc/passwd``: ssh refuses to work for a user without an entry."""
        path = self._folder.path / "passwd"
        uid, gid = self._user()
        path.write_text(f"root:x:0:0:root:/:/usr/sbin/nologin\nmagos:x:{uid}:{gid}:magos:/tmp/home:/usr/sbin/nologin\n")
        path.chmod(0o644)
        return path

    def _launchers(self) -> Path:
        """Write the image's own program, because the environment's console script names a path of this machine."""
        folder = self._folder.path / "launchers"
        folder.mkdir(exist_ok=True)
        program = folder / "magos-job"
        if not program.exists():
            program.write_text(_LAUNCHER)
            program.chmod(0o755)
        return folder

    def _interpreter(self) -> list[str]:
        """Return the folder of the Python that the environment was made from, which must be seen at its real path."""
        base = Path(sys.base_prefix)
        if any(base.is_relative_to(seen) for seen in _SYSTEM):
            return []
        for mount in self.container.volume_mounts:
            if base.is_relative_to(mount.mount_path):
                raise PodConfigError(
                    f"the mount at {mount.mount_path} would hide Python at {base}; run Magos with a Python elsewhere"
                )
        return [str(base)]

    def _message(self, code: int) -> str:
        containers = len(self._pod.spec.init_containers) + len(self._pod.spec.containers)
        limit = min(_MESSAGE_BYTES, _MESSAGES_BYTES // containers)
        with self._folder.termination(self.container.name).open("rb") as stream:
            text = stream.read(limit).decode("utf-8", errors="replace")
        if code == START_FAILED or (
            not text and code != 0 and self.container.termination_message_policy == "FallbackToLogsOnError"
        ):
            text = read_tail(self._folder.log(self.container.name))[-_FALLBACK_BYTES:]
        return text
