"""Many members at once, with the checker on."""

import random

import anyio

from magos.api.kube import JOBS
from magos.api.labels import WORKSPACE
from magos.api.reasons import Reason
from magos.api.workspace import WORKSPACES
from tests.sim.composed import judge
from tests.sim.fleet.cluster import Fleet, play
from tests.sim.fleet.turbulence import Turbulence
from tests.sim.fleet.users import URL
from tests.sim.promotion import Land, in_land
from tests.sim.tally import ROUND, TALLY

STAGES = ("dev", "staging", "prod")
MEMBERS = 300
ONE, TWO = "1" * 40, "2" * 40


def test_three_hundred_members_are_promoted_in_order() -> None:
    lands: list[Land] = []

    async def scene(land: Land) -> None:
        lands.append(land)
        await land.add_project()
        await land.add_rollout(*STAGES)
        async with anyio.create_task_group() as group:
            for number in range(MEMBERS):
                group.start_soon(land.add, f"member-{number:03}", STAGES[number % len(STAGES)])
        async with land.running():
            await _promoted(land, ONE)
            await land.announce(TWO)
            await _promoted(land, TWO)
        land.check_order(*STAGES)

    in_land(scene, seed=1 + ROUND)
    found = lands[0].violations()
    TALLY.histories += 1
    TALLY.violations += len(found)
    assert found == []


async def _promoted(land: Land, revision: str) -> None:
    """Look once a second: looking at 300 members is not for nothing."""
    with anyio.fail_after(1800):
        while not (land.all_applied(revision) and land.rollout().status.reason == Reason.ROLLOUT_COMPLETED):  # noqa: ASYNC110
            await anyio.sleep(1)


_PROGRAMS = ("workspace", "project", "rollout", "variableset", "refwatcher")
_NAMES = tuple(f"{stage}-{number}" for stage in STAGES for number in range(4))
_STEPS = tuple((stage, {"step": stage}) for stage in STAGES)


_FORGED = (
    {"execution_allowed": "True"},
    {"execution_allowed": ""},
    {"detected_revision": "a" * 40},
    {"detected_revision": "main"},
    {"approved": "20200101T000000-deadbeef", "approved_by": '{"principal": "root"}'},
)


class Interference:
    """People and an adversary who do anything to any of the members, for some minutes; ``faults`` counts it."""

    def __init__(self, fleet: Fleet, rng: random.Random) -> None:
        self.faults = 0
        self._fleet = fleet
        self._rng = rng

    async def run(self, deeds: int) -> None:
        """Do so many things, and then leave everything well."""
        for _ in range(deeds):
            self._do(self._rng.choice(_NAMES))
            self.faults += 1
            await anyio.sleep(self._rng.choice((0.0, 0.02, 0.3, 3.0)))
        for item in self._fleet.items(JOBS.resource):
            if not item["metadata"].get("ownerReferences"):
                self._fleet.adversary.delete(JOBS, item["metadata"]["name"])

    def _do(self, name: str) -> None:
        fleet, rng = self._fleet, self._rng
        match rng.randrange(10):
            case 0:
                fleet.users.edit(name, terraform={"version": rng.choice(("1.9.8", "1.9.9"))})
            case 1:
                fleet.users.annotate(name, reconcile_request=rng.choice("ab"))
            case 2:
                fleet.users.delete(WORKSPACES, name)
            case 3 if fleet.users.find(name) is None:
                _member(fleet, name)
            case 4:
                fleet.git.push(URL, plan_fails=frozenset({name}) if rng.random() < 0.3 else frozenset())
            case 5 | 6 | 7:
                fleet.adversary.annotate(name, **rng.choice(_FORGED))
            case 8:
                self._take_the_next_job(name)
            case _:
                for job in fleet.items(JOBS.resource):
                    if (job["metadata"].get("labels") or {}).get(WORKSPACE) == name:
                        fleet.users.delete(JOBS, job["metadata"]["name"])

    def _take_the_next_job(self, name: str) -> None:
        found = self._fleet.users.find(name)
        run = found.status.current_run if found is not None else None
        wanted = (run.apply_job if run.has_changes else run.plan_job) if run is not None else ""
        if wanted and not any(item["metadata"]["name"] == wanted for item in self._fleet.items(JOBS.resource)):
            spec = {"suspend": True, "template": {"spec": {"containers": [{"name": "x", "image": "x"}]}}}
            self._fleet.adversary.create(JOBS, wanted, metadata={"labels": {WORKSPACE: name}}, spec=spec)


def test_twelve_members_come_to_their_end_whatever_an_adversary_did() -> None:
    seed = 12 + ROUND
    made: list[Interference] = []

    async def scene(fleet: Fleet) -> None:
        fleet.git.push(URL)
        fleet.users.project()
        fleet.users.rollout(*_STEPS)
        for name in _NAMES:
            _member(fleet, name)
        made.append(Interference(fleet, random.Random(seed)))
        fleet.also.start_soon(Turbulence(fleet.server, random.Random(seed + 1), seconds=60.0).run)
        await made[0].run(150)
        await fleet.until(lambda: not any(_goes(fleet, name) for name in _NAMES), "the end of all deletions")
        for name in _NAMES:
            if fleet.users.find(name) is None:
                _member(fleet, name)
        sha = fleet.git.push(URL)
        await fleet.until(lambda: all(fleet.observed(name) == sha for name in _NAMES), "the last commit everywhere")

    fleet = play(lambda: Fleet(seed, programs=_PROGRAMS, election=True), scene, seed=seed)
    judge(fleet)
    TALLY.faults += made[0].faults


def _member(fleet: Fleet, name: str) -> None:
    fleet.users.workspace(name, labels={"step": name.partition("-")[0]})
    fleet.users.annotate(name, git_poll_interval="15s")


def _goes(fleet: Fleet, name: str) -> bool:
    found = fleet.users.find(name)
    return found is not None and found.metadata.deletion_timestamp is not None
