"""A Workspace of the one-machine mode whose run stands still in whichever stage a test wants to do something to it.

Nothing is timed: the Git server is reached through a gate that can be shut, the state server holds an operation back,
``render`` finds a tool that waits, and ``job`` waits for somebody to read its termination message.
"""

import os
import select
import signal
import socket
import socketserver
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.runnerpod import Stage
from magos.api.workspace import Workspace
from magos.local.node.volumes import claim_folder
from magos.local.servers.loopback import serving
from tests.e2e.onemachine import OneMachine
from tests.e2e.runner.pod import provisioned
from tests.e2e.runner.statebackend import StateServer, state_server
from tests.envtest.cluster import eventually

__all__ = ["Gate", "StandingPod", "Subject", "gated", "subject_in"]

PATIENCE = 180.0
_APPLIED = "/workspace-data/applied"
_ONE_WRITER = threading.Lock()
_WAITING_TOOL = """\
#!/bin/sh
trap 'exit 1' INT
: > /scratch/render/started
while :; do sleep 0.05; done
"""


class Gate:
    """A port in front of another one. While it is shut, connections are taken and nothing passes."""

    def __init__(self, port: int, behind: tuple[str, int]) -> None:
        self.port = port
        self.behind = behind
        self.passable = threading.Event()
        self.passable.set()
        self.waiting = threading.Event()

    def shut(self) -> None:
        """Let nothing pass from now on; ``waiting`` tells when somebody is at the gate."""
        self.waiting.clear()
        self.passable.clear()

    def open(self) -> None:
        """Let everybody pass, also who waits."""
        self.passable.set()


class _Passage(socketserver.BaseRequestHandler):
    gate: ClassVar[Gate]

    def handle(self) -> None:
        if not self.gate.passable.is_set():
            self.gate.waiting.set()
            if not self.gate.passable.wait(PATIENCE):
                return
        with socket.create_connection(self.gate.behind) as server:
            ends = {self.request: server, server: self.request}
            while True:
                for ready in select.select(list(ends), [], [])[0]:
                    try:
                        content = ready.recv(65536)
                        ends[ready].sendall(content)
                    except OSError:  # whoever asked is gone
                        return
                    if not content:
                        return


@contextmanager
def gated(host: str, port: int) -> Iterator[Gate]:
    """A gate on loopback in front of ``host``:``port`` for the length of the block."""
    passage = type("Passage", (_Passage,), {})
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), passage)
    server.daemon_threads = True
    passage.gate = Gate(server.server_address[1], (host, port))  # type: ignore[attr-defined]
    with serving(server, "gate"):
        try:
            yield passage.gate  # type: ignore[attr-defined]
        finally:
            passage.gate.open()  # type: ignore[attr-defined]


class StandingPod:
    """A runner pod as its node sees it."""

    def __init__(self, here: OneMachine, found: dict[str, Any]) -> None:
        self._here = here
        self.namespace: str = found["metadata"]["namespace"]
        self.name: str = found["metadata"]["name"]
        self.job: str = found["metadata"]["labels"]["job-name"]
        self.run_id: str = found["metadata"]["labels"]["magosproject.io/run-id"]
        self.folder: Path = here.here.pods.folder / "pods" / found["metadata"]["uid"]

    def log(self, stage: Stage) -> str:
        """What the stage has printed until now."""
        path = self.folder / "logs" / f"{stage}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def delete(self, grace_seconds: int) -> None:
        """Ask for the pod's deletion: its processes get SIGTERM, and SIGKILL when the grace is over."""
        self._here.call("DELETE", f"{self._path}?gracePeriodSeconds={grace_seconds}")

    def evict(self) -> None:
        """Ask for the pod's eviction, as the drain of a node does."""
        metadata = {"name": self.name, "namespace": self.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        self._here.call("POST", f"{self._path}/eviction", body)

    def vanish(self) -> None:
        """Remove the pod's object at once, as somebody does who gives a node up; its processes are killed."""
        self.delete(grace_seconds=0)

    def delete_job(self, *, cascade: str) -> None:
        """Delete the Job; ``cascade``: ``Background`` takes the pod with it, ``Orphan`` lets it work on."""
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{self.job}"
        self._here.call("DELETE", f"{path}?propagationPolicy={cascade}")

    def shorten_deadline(self, seconds: int) -> None:
        """Let the Job end ``seconds`` after it began."""
        patch = f'{{"spec":{{"activeDeadlineSeconds":{seconds}}}}}'
        self._here.here.kubectl.run("patch", "job", self.job, "-n", self.namespace, "--type=merge", "-p", patch)

    def await_interrupt(self) -> None:
        """Wait until the tool, which stands still, has been asked to finish."""
        eventually(lambda: "(SIGINT)" in self.log(Stage.TERRAFORM))

    def first_process(self, stage: Stage) -> int:
        """Return PID 1 of the stage's container as this machine numbers it."""
        specification = str(self.folder / f"{stage}.json").encode()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if specification in (entry / "cmdline").read_bytes():
                    return int((entry / "task" / entry.name / "children").read_text().split()[0])
            except (OSError, IndexError):
                continue  # ended while we looked, or has not started the container yet
        raise AssertionError(f"container {stage} of pod {self.name} does not run")

    def stop(self, stage: Stage, number: signal.Signals) -> None:
        """Send the stage's first process the signal as Kubernetes does, or as the kernel does; wait until it acted."""
        process = self.first_process(stage)
        if number is signal.SIGKILL:
            os.kill(process, signal.SIGKILL)
        else:
            self.delete(grace_seconds=100)
        if stage is Stage.TERRAFORM and number is signal.SIGTERM:  # goes on until the state server has answered
            self.await_interrupt()
        else:
            eventually(lambda: not Path(f"/proc/{process}").exists())

    def block_message(self) -> None:
        """Let the ``job`` stage, which has not begun, wait at its last act for a reader of its message."""
        pipe = self._message
        os.mkfifo(pipe)
        pipe.chmod(0o666)

    def await_message(self) -> None:
        """Wait until the ``job`` stage waits; the node will find an empty message, whatever is written now."""
        eventually(lambda: "succeeded at" in self.log(Stage.JOB), within=PATIENCE)
        pipe = self._message
        pipe.rename(pipe.with_name("pipe"))
        pipe.touch()

    def take_message(self) -> None:
        """Let the waiting ``job`` stage write its message, which nobody keeps, and end."""
        (self._message.with_name("pipe")).read_bytes()

    def leave_message(self, text: str) -> None:
        """Put a termination message where the node reads it."""
        self._message.write_text(text)

    def slow_tool_down(self) -> Path:
        """Put a tool that waits in the place of the real one; return the file that tells of its start."""
        tool = self.folder / "volumes/work/tool/tofu"
        fresh = tool.with_name("waiting")
        fresh.write_text(_WAITING_TOOL)
        fresh.chmod(0o755)
        fresh.replace(tool)
        return self.folder / "volumes/scratch/render/started"

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def _message(self) -> Path:
        return self.folder / "termination" / Stage.JOB


class Subject:
    """The Workspace. Its module has a resource that is finished at once, and one that notes the run on the volume."""

    def __init__(self, here: OneMachine, namespace: str, state: StateServer, gate: Gate) -> None:
        self.here, self.namespace, self.name = here, namespace, "net"
        self.state, self.gate = state, gate
        self.mark = here.audit.mark()
        module = state.backend + 'resource "terraform_data" "done" {}\n'
        module += provisioned(f"ls /workspace-data/runs >> {_APPLIED}", "depends_on = [terraform_data.done]")
        folder = f"standing/{namespace}"
        with _ONE_WRITER:
            here.here.repository.commit({f"{folder}/main.tf": module}, "A module to be interrupted")
        repository = here.here.repository.path.name
        self.source = {"repoURL": f"http://127.0.0.1:{gate.port}/{repository}", "path": folder}

    def create(self, **overrides: Any) -> None:
        """Create the Workspace, which starts its first run."""
        document = self.here.workspace_document(self.namespace, self.name, source=self.source, **overrides)
        self.here.apply(document)

    def recovers(self, *, reason: str) -> None:
        """Assert that a run which somebody asks for now succeeds, and that nothing was ever applied twice."""
        status = self.request().status
        assert (status.phase, status.reason) == (Phase.APPLIED, reason), status.message
        self.is_applied_once()

    def is_applied_once(self) -> None:
        """Assert that the module is in the state, nobody holds its lock, and no Job and no apply came twice."""
        assert self.state.resources == ["a", "done"]
        assert self.state.lock is None
        assert len(self.executions) == 1, "something was applied twice"
        assert set(Counter(self.created_jobs).values()) == {1}

    def pod(self, phase: JobType) -> StandingPod:
        """Return the latest pod of ``phase``."""
        selector = f"magosproject.io/workspace={self.name},magosproject.io/job-type={phase}"
        found = self.here.call("GET", f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={selector}")
        pods = sorted(found["items"], key=lambda pod: str(pod["metadata"]["labels"]["magosproject.io/run-id"]))
        return StandingPod(self.here, pods[-1])

    @contextmanager
    def standing(self, phase: JobType, stage: Stage, **overrides: Any) -> Iterator[StandingPod]:
        """Create the Workspace and yield the pod of its first run once ``stage`` of ``phase`` stands still.

        What holds the run back is gone when the block is left.
        """
        try:
            if (phase, stage) == (JobType.PLAN, Stage.FETCH):
                self.gate.shut()
                self.create(**overrides)
                assert self.gate.waiting.wait(PATIENCE)
                yield self.pod(phase)
            elif stage is Stage.TERRAFORM:
                with self._held(phase, during=True, **overrides) as pod:
                    yield pod
            else:
                yield self._reached(phase, stage, **overrides)
        finally:
            self.gate.open()

    def _reached(self, phase: JobType, stage: Stage, **overrides: Any) -> StandingPod:
        """Set the trap while the run stands still in the stage before, and wait until it snaps."""
        if stage is Stage.FETCH:
            with self._held(JobType.PLAN, during=False, **overrides):
                self.gate.shut()
            assert self.gate.waiting.wait(PATIENCE)
            return self.pod(phase)
        with self._held(phase, during=False, **overrides) as pod:
            started = pod.slow_tool_down() if stage is Stage.RENDER else None
            if started is None:
                pod.block_message()
        if started is None:
            pod.await_message()
        else:
            eventually(started.exists, within=PATIENCE)
        return pod

    @contextmanager
    def _held(self, phase: JobType, *, during: bool, **overrides: Any) -> Iterator[StandingPod]:
        """Hold the tool of ``phase`` at the state server, in the middle of its work or at its end."""
        middle = ("GET", 1) if phase is JobType.PLAN else ("POST", 0)
        end = ("UNLOCK", 0 if phase is JobType.PLAN else 1)
        with self.state.hold(*(middle if during else end)) as held:
            self.create(**overrides)
            assert held.reached.wait(PATIENCE)
            yield self.pod(phase)

    def delete_first_job(self, phase: JobType) -> str:
        """Wait for the first Job of ``phase`` and delete it with its pod the moment it is seen; return its name."""
        kubectl = self.here.here.kubectl
        command = [str(kubectl.program), f"--kubeconfig={kubectl.kubeconfig}", "-n", self.namespace]
        with subprocess.Popen(
            [*command, "get", "jobs", "-w", "-o", "name"], stdout=subprocess.PIPE, text=True
        ) as watch:
            assert watch.stdout is not None
            try:
                for line in watch.stdout:
                    name: str = line.strip().rpartition("/")[2]
                    if f"-{phase}-" in name:
                        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}"
                        self.here.call("DELETE", f"{path}?propagationPolicy=Background")
                        return name
            finally:
                watch.kill()
        raise AssertionError(f"no Job of the {phase} was seen")

    def request(self) -> Workspace:
        """Ask for a run as a person does, and return the Workspace when that run has ended."""
        token = self.here.request(self.namespace, self.name)
        return self.here.wait(
            self.namespace, self.name, lambda w: w.status.last_handled_reconcile_request == token, within=PATIENCE
        )

    def wait(self, phase: str) -> Workspace:
        """Wait until the Workspace is in ``phase``."""
        return self.here.wait(self.namespace, self.name, lambda w: w.status.phase == phase, within=PATIENCE)

    @property
    def executions(self) -> list[str]:
        """The runs whose apply created the second resource, each as often as it did."""
        claim = self.here.call("GET", f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims/{self.name}-data")
        noted = claim_folder(self.here.here.pods.folder, claim["metadata"]["uid"]) / Path(_APPLIED).name
        return noted.read_text().split() if noted.exists() else []

    @property
    def created_jobs(self) -> list[str]:
        """The names of the Jobs that were created, in order, each as often as it was created."""
        requests = self.here.audit.requests(self.mark)
        created = [r for r in requests if (r.verb, r.resource, r.namespace) == ("create", "jobs", self.namespace)]
        return [r.name for r in created if r.code == 201]


@contextmanager
def subject_in(here: OneMachine, namespace: str) -> Iterator[Subject]:
    """A subject in ``namespace`` with a state server and a gate of its own."""
    host, port = here.here.git.url.removeprefix("http://").split(":")
    with state_server() as state, gated(host, int(port)) as gate:
        yield Subject(here, namespace, state, gate)
