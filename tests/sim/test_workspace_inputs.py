"""Variables and policies of runs, with the controllers as processes over the simulated API server in virtual time."""

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from magos.api.kube import CONFIG_MAPS, EVENTS, SECRETS, Job, Secret
from magos.api.labels import WORKSPACE
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.project import PROJECTS
from magos.api.result import PolicyCount, Result
from magos.api.validatingpolicy import VALIDATING_POLICIES
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES
from tests.sim.apiserver.resources import Json
from tests.sim.magos import NAMESPACE, WITH_VARIABLES, Node, World, good, in_world, workspace

VALUE = "hunter2-hunter2"
SETS = [{"name": "inputs"}]
SELECTOR: Json = {"policySelector": {"matchLabels": {"team": "a"}}}


async def declare(world: World, value: str = VALUE) -> None:
    """A Secret, and a set with a reference to it and a literal."""
    secret = Secret(metadata=ObjectMeta(name="db", namespace=NAMESPACE), data={"password": value.encode()})
    await world.user.create(SECRETS, secret)
    reference = {"name": "password", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
    spec: Json = {"variables": [reference, {"name": "size", "value": "small"}]}
    await world.user.create(VARIABLESETS, {"metadata": {"name": "inputs", "namespace": NAMESPACE}, "spec": spec})


async def rotate(world: World, value: str) -> None:
    data = {"data": {"password": msgspec.to_builtins(value.encode())}}
    await world.user.patch(SECRETS, NAMESPACE, "db", data)


def stage_of(job: Json, stage: str) -> dict[str, Json]:
    spec = job["spec"]["template"]["spec"]
    found = next(each for each in (*spec["initContainers"], *spec["containers"]) if each["name"] == stage)
    return {each["name"]: each for each in found["env"]}


def test_a_rotated_secret_starts_one_run_and_its_value_is_nowhere() -> None:
    async def scene(world: World) -> None:
        await declare(world)
        async with world.running(WITH_VARIABLES):
            await world.apply("a", variableSetRef=SETS)
            await world.until(lambda: world.phase("a") == "Applied")
            for job in world.jobs():
                assert stage_of(job, "terraform")["MAGOS_REDACT_ENV"]["value"] == "TF_VAR_password"
            await rotate(world, "rotated-rotated")
            await world.until(lambda: world.trigger("a") == "variables" and world.phase("a") == "Applied")
            runs = len(world.node.ran)
            await anyio.sleep(60)
            assert len(world.node.ran) == runs == 4
            writes = len(world.writes())
            await anyio.sleep(60)
            assert len(world.writes()) == writes
        others = [each for each in world.server.resources if each.plural != "secrets"]
        stored = str([world.server.store.items(each, "") for each in others])
        assert "small" in stored
        assert VALUE not in stored
        assert "rotated-rotated" not in stored

    in_world(scene)


def test_a_set_that_comes_later_lets_the_run_start_by_itself() -> None:
    async def scene(world: World) -> None:
        async with world.running(WITH_VARIABLES):
            await world.apply("a", variableSetRef=SETS)
            await world.until(lambda: world.phase("a") == "Failed")
            await anyio.sleep(30)
            assert world.phase("a") == "Failed"
            writes = len(world.writes())
            await anyio.sleep(60)
            assert len(world.writes()) == writes
            await declare(world)
            await world.until(lambda: world.phase("a") == "Applied", within=60)
        assert [each.job_type for each in world.node.ran] == [JobType.PLAN, JobType.APPLY]

    in_world(scene)


def test_without_the_variableset_controller_a_run_waits_and_says_for_what() -> None:
    async def scene(world: World) -> None:
        await declare(world)
        async with world.running():
            await world.apply("a", variableSetRef=SETS)
            await anyio.sleep(30)
            found = world.workspace("a")
            assert found is not None
            assert (str(found.status.phase), found.status.reason) == ("Pending", "AwaitingVariables")
        async with world.running(WITH_VARIABLES):
            await world.until(lambda: world.phase("a") == "Applied")

    in_world(scene)


@pytest.mark.parametrize("seed", range(3))
def test_controllers_killed_at_any_time_run_each_rotation_once(seed: int) -> None:
    async def scene(world: World) -> None:
        await declare(world)
        await world.user.create(
            PROJECTS,
            {"metadata": {"name": "platform", "namespace": NAMESPACE}, "spec": {"variableSetRef": SETS}},
        )
        await world.user.create(WORKSPACES, workspace("a"))
        for _ in range(40):
            async with world.running(WITH_VARIABLES):
                await anyio.sleep(world.rng.uniform(0.05, 1.5) + (15.0 if world.rng.random() < 0.3 else 0.0))
            if world.phase("a") == "Applied":
                break
        async with world.running(WITH_VARIABLES):
            await world.until(lambda: world.phase("a") == "Applied")
            await anyio.sleep(5)
            first = len(world.node.ran)
            await rotate(world, "rotated-rotated")
            await world.until(lambda: world.trigger("a") == "variables" and world.phase("a") == "Applied")
        # A restarted variableset controller takes another resourceVersion for a change, so there may be one run more.
        assert first in (2, 4)
        assert len({each.run_id for each in world.node.ran}) == len(world.node.ran) // 2

    in_world(scene, seed=seed)


def test_where_the_kind_of_policies_is_not_installed_nothing_is_planned() -> None:
    async def scene(world: World) -> None:
        async with world.running():
            await world.apply("a", validation=SELECTOR)
            await world.until(lambda: world.phase("a") == "Failed")
            found = world.workspace("a")
            assert found is not None
            assert found.status.reason == "PolicyEvaluationFailed"
            assert "kyverno-crd" in found.status.message
            await anyio.sleep(100)
            assert world.jobs() == []

    in_world(scene)


def judged(job: Job, job_type: JobType) -> Result:
    """The runner of ``a`` evaluates the one policy that is mounted there."""
    count = PolicyCount(selected=1, evaluated=1) if job.metadata.labels[WORKSPACE] == "a" else PolicyCount()
    return replace(good(job, job_type), policies=count)


def test_selected_policies_are_stored_once_and_mounted_and_no_match_is_an_event() -> None:
    async def scene(world: World) -> None:
        world.node = Node(world, judged)
        for name, team in (("cost", "a"), ("tags", "b")):
            meta = {"name": name, "labels": {"team": team}}
            await world.user.create(VALIDATING_POLICIES, {"metadata": meta, "spec": {"evaluation": {"mode": "JSON"}}})
        async with world.running():
            await world.apply("a", validation=SELECTOR)
            other = {"policySelector": {"matchLabels": {"team": "nobody"}}}
            await world.user.create(WORKSPACES, workspace("b", validation=other))
            await world.until(lambda: world.phase("a") == world.phase("b") == "Applied")
            await world.annotate("a", reconcile_request="again")
            await world.until(lambda: world.trigger("a") == "manual" and world.phase("a") == "Applied")
            await anyio.sleep(5)
        [stored] = (await world.user.list_all(CONFIG_MAPS)).items
        assert list(stored.data) == ["cost.yaml"]
        plans = [j for j in world.jobs() if j["metadata"]["name"].startswith("a-plan")]
        for plan in plans:
            assert stage_of(plan, "job")["MAGOS_POLICIES_DIGEST"]["value"].startswith("sha256:")
        events = (await world.user.list_all(EVENTS)).items
        assert [each.regarding.name for each in events if each.reason == "NoPoliciesMatched"] == ["b"]

    in_world(scene, policies=True)
