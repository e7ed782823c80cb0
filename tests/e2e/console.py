"""The API server of a one-machine mode as a person or a script uses it: over HTTP, as the administrator."""

import json
import subprocess
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx

from magos.api.names import JobType
from magos.api.runnerpod import stages_of
from magos.joblog import heading
from magos.local.machine import Extras
from tests.e2e.onemachine import OneMachine

__all__ = ["API", "Console", "PodOutputs", "events_of", "pod_outputs"]

API = "/apis/magosproject.io/v1alpha1"
LOGIN = "/api/v1alpha1/auth/login"

Json = dict[str, Any]


class Console:
    """A client that is logged in; every call blocks. Use it as a context."""

    def __init__(self, here: OneMachine) -> None:
        self._here = here
        self.http = httpx.Client(base_url=self.extras.api.url, trust_env=False, timeout=30)

    def __enter__(self) -> Self:
        answer = self.login(self.extras.api.password)
        answer.raise_for_status()
        self.http.headers["Authorization"] = f"Bearer {answer.json()['idToken']}"
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    @property
    def extras(self) -> Extras:
        """What runs beside the controllers."""
        assert self._here.here.extras is not None, "this machine has no API server"
        return self._here.here.extras

    def login(self, password: str) -> httpx.Response:
        """Try to log in."""
        return self.http.post(LOGIN, headers={"Authorization": f"Bearer {password}"})

    def get(self, path: str, **query: str) -> Any:
        """Return the JSON that stands at ``path`` below the API."""
        answer = self.http.get(f"{API}/{path}", params=query)
        assert answer.is_success, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def runs(self, namespace: str, name: str) -> list[Json]:
        """Return all runs that are told of a Workspace, newest first."""
        found: list[Json] = []
        cursor = ""
        while True:
            query = {"limit": "100"} | ({"cursor": cursor} if cursor else {})
            page = self.get(f"workspaces/{namespace}/{name}/runs", **query)
            found += page["items"]
            cursor = page.get("nextCursor", "")
            if not cursor:
                return found

    def log(self, namespace: str, name: str, run_id: str, phase: JobType) -> bytes:
        """Return the log of a phase, or nothing if there is none."""
        path = f"{API}/workspaces/{namespace}/{name}/runs/{run_id}/log"
        answer = self.http.get(path, params={"phase": str(phase)})
        return answer.content if answer.is_success else b""

    def events(self, kind: str, **query: str) -> Generator[Mapping[str, str], None, None]:
        """Yield the changes of a kind as ``events_at`` does."""
        return self.events_at(f"{kind}/events", **query)

    def events_at(self, path: str, **query: str) -> Generator[Mapping[str, str], None, None]:
        """Yield the events of a live stream as they come, each with its fields; close the iterator to end it."""
        with self.http.stream("GET", f"{API}/{path}", params=query) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            fields: dict[str, str] = {}
            for line in answer.iter_lines():
                name, _, value = line.partition(":")
                if name:
                    fields[name] = value.removeprefix(" ")
                elif not line and fields:
                    yield fields
                    fields = {}


class PodOutputs:
    """What the pods of a namespace print, from the pod runner's files: those stay when the pods are deleted."""

    def __init__(self, here: OneMachine, listing: Path) -> None:
        self._folder = here.here.pods.folder / "pods"
        self._listing = listing

    def of(self, pod: str, job_type: JobType) -> bytes:
        """Return what the stages of a pod printed, as the log of the phase has it; every stage must have started."""
        seen = [line.split() for line in self._listing.read_text().splitlines()]
        [folder, *_] = {self._folder / uid for name, uid in seen if name == pod}
        text = b""
        for stage in stages_of(job_type):
            output = (folder / "logs" / f"{stage}.log").read_bytes()
            text += heading(stage).encode() + b"\n" + output
            text += b"" if output.endswith(b"\n") or not output else b"\n"
        return text


@contextmanager
def pod_outputs(here: OneMachine, namespace: str, folder: Path) -> Iterator[PodOutputs]:
    """Remember every pod of the namespace for the length of the block."""
    kubectl, listing = here.here.kubectl, folder / f"pods-{namespace}"
    columns = "custom-columns=NAME:.metadata.name,UID:.metadata.uid"
    command = [str(kubectl.program), f"--kubeconfig={kubectl.kubeconfig}", "get", "pods", "-n", namespace]
    with listing.open("wb") as output:
        watching = subprocess.Popen([*command, "--watch", "--no-headers", "-o", columns], stdout=output)
    try:
        yield PodOutputs(here, listing)
    finally:
        watching.terminate()
        watching.wait(30)


def events_of(fields: Mapping[str, str]) -> Json:
    """Return the decoded data of an event."""
    found: Json = json.loads(fields["data"])
    return found
