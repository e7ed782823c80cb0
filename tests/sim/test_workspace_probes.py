"""The workspace controller's own probes, against the simulated API server."""

import base64

from magos.adapters.jobevents import read_job_events
from magos.adapters.repositorysecrets import RepositorySecretReader
from magos.api.kube import EVENTS, SECRETS
from magos.bounds import JOB_EVENTS
from magos.reconcilers.effects import JobEvents, RepositorySecrets
from tests.sim.magos import NAMESPACE, World, in_world

URL = "https://git.example.com/demo.git"
PROBE = RepositorySecrets(NAMESPACE, URL)


async def add(world: World, name: str, *, label: str = "repository", **data: str) -> None:
    coded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    meta = {"name": name, "namespace": NAMESPACE, "labels": {"magosproject.io/secret-type": label}}
    await world.user.create(SECRETS, {"metadata": meta, "data": coded})


def test_a_secret_belongs_to_a_repository_byte_for_byte() -> None:
    async def scene(world: World) -> None:
        await add(world, "near", repoURL=URL + "/", password="x")
        await add(world, "other", label="other", repoURL=URL, password="x")
        await add(world, "nameless", password="x")
        reader = RepositorySecretReader()
        report = await reader(PROBE, world.user)
        assert (report.names, report.keys, report.incomplete) == ((), (), ("nameless",))
        await add(world, "exact", repoURL=URL, password="x", username="", unknown="y")
        report = await reader(PROBE, world.user)
        assert (report.names, report.keys) == (("exact",), ("password",))

    in_world(scene)


def test_the_oldest_of_several_secrets_wins_then_the_name() -> None:
    async def scene(world: World) -> None:
        await add(world, "z", repoURL=URL, sshPrivateKey="k")
        await add(world, "a", repoURL=URL, password="x")
        reader = RepositorySecretReader()
        first = await reader(PROBE, world.user)
        assert first.names == ("a", "z")  # created within the same second
        assert first.keys == ("password",)

    in_world(scene)


def test_a_secret_is_read_once_a_version_and_no_value_is_kept() -> None:
    async def scene(world: World) -> None:
        await add(world, "creds", repoURL=URL, password="hunter2")
        reader = RepositorySecretReader()
        client = world.server.client("probe")
        for _ in range(3):
            assert (await reader(PROBE, client)).names == ("creds",)
        assert world.server.counts("probe") == {"list": 3, "get": 1}
        assert "hunter2" not in repr(vars(reader))
        assert URL not in repr(vars(reader))
        patch = {"data": {"username": base64.b64encode(b"u").decode()}}
        await world.user.patch(SECRETS, NAMESPACE, "creds", patch)
        assert (await reader(PROBE, client)).keys == ("password", "username")

    in_world(scene)


def _warning(number: int, uid: str = "job", kind: str = "Warning") -> dict[str, object]:
    return {
        "metadata": {"name": f"e{number}", "namespace": NAMESPACE},
        "eventTime": f"2026-01-01T00:{99 - number:02d}:00.000000Z",
        "reason": f"R{number}",
        "note": "n",
        "type": kind,
        "action": "A",
        "reportingController": "c",
        "reportingInstance": "i",
        "regarding": {"kind": "Job", "namespace": NAMESPACE, "name": "j", "uid": uid},
    }


def test_bound_job_events() -> None:
    async def scene(world: World) -> None:
        for number in range(JOB_EVENTS.limit + 3):
            await world.user.create(EVENTS, _warning(number))
        told = await read_job_events(JobEvents(NAMESPACE, "job", "pod"), world.user)
        assert [warning.reason for warning in told] == [f"R{n}" for n in reversed(range(JOB_EVENTS.limit))]

    in_world(scene)


def test_only_warnings_about_this_job_and_its_pod_are_told_oldest_first() -> None:
    async def scene(world: World) -> None:
        for number, (uid, kind) in enumerate(
            [("job", "Warning"), ("pod", "Warning"), ("x", "Warning"), ("job", "Normal")]
        ):
            await world.user.create(EVENTS, _warning(number, uid, kind))
        told = await read_job_events(JobEvents(NAMESPACE, "job", "pod"), world.user)
        assert [warning.reason for warning in told] == ["R1", "R0"]

    in_world(scene)
