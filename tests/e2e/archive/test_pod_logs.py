"""The log of a phase, read from a real pod through a real API server, equals what its containers printed."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import anyio
import pytest
import yaml

from magos.api.kube import PODS, Pod
from magos.api.names import JobType
from magos.joblog import finished_log, followed_lines
from magos.runtime.client.client import ApiClient
from magos.runtime.client.config import load_config
from magos.runtime.client.errors import ApiError
from magos.runtime.client.http import connect
from tests.e2e.onemachine import OneMachine
from tests.e2e.test_podrunner import container, pod
from tests.envtest.tcpproxy import proxy_to

pytestmark = pytest.mark.anyio

_FETCH = "echo cloned; echo no newline | tr -d '\\n'"
_TERRAFORM = 'i=0; while [ $i -lt 40000 ]; do echo "line $i of a plan"; i=$((i+1)); done; printf "\\n  indented\\n"'
_JOB = "sleep 1; echo one; sleep 2; echo two >&2"

EXPECTED = (
    "=== fetch ===\ncloned\nno newline\n=== terraform ===\n"
    + "".join(f"line {number} of a plan\n" for number in range(40_000))
    + "\n  indented\n=== job ===\none\ntwo\n"
)


@asynccontextmanager
async def client_of(here: OneMachine, server: str = "") -> AsyncIterator[ApiClient]:
    path = here.here.plane.admin_kubeconfig
    if server:
        config = yaml.safe_load(await anyio.Path(path).read_text())
        config["clusters"][0]["cluster"]["server"] = server
        path = path.with_name("proxied.kubeconfig")
        await anyio.Path(path).write_text(json.dumps(config))
    client = ApiClient(connect(load_config(str(path), environ={}), user_agent="test"))
    try:
        yield client
    finally:
        await client.aclose()


def created(here: OneMachine, namespace: str, name: str) -> None:
    stages = {"initContainers": [container("fetch", _FETCH), container("terraform", _TERRAFORM)]}
    document = pod(namespace, name, **stages, containers=[container("job", _JOB)])
    here.here.kubectl.run("create", "-f", "-", stdin=json.dumps(document))


async def log_of(client: ApiClient, found: Pod, job_type: JobType) -> str:
    async with aclosing(finished_log(client, found, job_type)) as chunks:
        return b"".join([chunk async for chunk in chunks]).decode()


async def read_for_ever(client: ApiClient, found: Pod) -> None:
    while True:
        await log_of(client, found, JobType.APPLY)


async def test_a_pod_is_followed_to_its_end_and_read_again_the_same(here: OneMachine, namespace: str) -> None:
    await anyio.to_thread.run_sync(created, here, namespace, "followed")
    async with client_of(here) as client:
        found = await client.get(PODS, namespace, "followed")
        followed, stage = "", ""
        with anyio.fail_after(120):
            async with aclosing(followed_lines(client, found, JobType.APPLY)) as lines:
                async for line in lines:
                    if line.stage != stage:
                        stage = line.stage
                        followed += f"=== {stage} ===\n"
                    followed += line.text.decode() + "\n"
            assert followed == EXPECTED
            assert await log_of(client, found, JobType.APPLY) == EXPECTED
            assert "=== render ===\n[no output of this stage: " in await log_of(client, found, JobType.PLAN)
        await client.delete(PODS, namespace, "followed", grace_seconds=0)
        with anyio.fail_after(60), pytest.raises(ApiError) as caught:
            await read_for_ever(client, found)
    assert caught.value.not_found


async def test_connections_that_are_reset_again_and_again_cost_no_line(here: OneMachine, namespace: str) -> None:
    await anyio.to_thread.run_sync(created, here, namespace, "reset")
    host, _, port = here.here.plane.url.removeprefix("https://").partition(":")
    async with (
        proxy_to(host, int(port)) as proxy,
        client_of(here, f"https://127.0.0.1:{proxy.port}") as client,
        anyio.create_task_group() as tasks,
    ):

        async def cut() -> None:
            while True:
                await anyio.sleep(0.7)
                proxy.cut()

        found = await client.get(PODS, namespace, "reset")
        tasks.start_soon(cut)
        with anyio.fail_after(120):
            async with aclosing(followed_lines(client, found, JobType.APPLY)) as lines:
                texts = [line.text.decode() async for line in lines]
        tasks.cancel_scope.cancel()
    assert texts == [line for line in EXPECTED.splitlines() if not line.startswith("===")]
