"""People, an adversary, Git and the cluster do whatever they like, in any order; no invariant of spec §3 ever breaks.

Hypothesis chooses what happens, a seed chooses the rest. A failure shows the seed, the shrunk steps, and the end of the
history. At the end everything is healed, and then whatever waits must say why, and whatever can go on must have ended.
"""

import asyncio
import random
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

import structlog
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from magos.api.kube import JOBS, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS
from magos.api.meta import Kind
from magos.api.phases import Phase
from magos.api.project import PROJECTS
from magos.api.result import Violation as PolicyViolation
from magos.api.result import ViolationAction
from magos.api.rollout import ROLLOUTS
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES
from tests.sim.fleet.cluster import Fleet
from tests.sim.fleet.turbulence import Turbulence
from tests.sim.fleet.users import NAMESPACE, URL
from tests.sim.history.pace import fastest
from tests.sim.history.story import story
from tests.sim.tally import ROUND, TALLY
from tests.sim.virtualtime import VirtualLoop

T = TypeVar("T")

PROGRAMS = ("workspace", "project", "rollout", "variableset", "refwatcher")
HEALING_SECONDS = 420.0
RUN_SECONDS = 60.0
"""More than a run takes, less than the time between two ticks of the schedule."""

MOST_REQUESTS = 100
"""Requests of one controller for one thing within one minute: what three Workspaces and any adversary may cause."""

_PAUSES = (0.0, 0.005, 0.02, 0.3, 3.0, 12.0)
names = st.sampled_from(["dev", "stage", "prod"])
STEPS = {name: (name, {"step": name}) for name in ("dev", "stage", "prod", "nobody")}
forged = st.sampled_from(["True", "1", "yes", "", "true "])
shas = st.sampled_from(["a" * 40, "main", "f" * 39, "", "ABCDEF0123" * 4])


class Everybody(RuleBasedStateMachine):
    """One fleet with all controllers on a loop of its own."""

    fleet: Fleet

    @initialize(seed=st.integers(0, 2**16), election=st.booleans(), ordered=st.booleans(), manual=st.sets(names))
    def begin(self, seed: int, election: bool, ordered: bool, manual: set[str]) -> None:
        self.logging = structlog.get_config()
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
        self.runner = asyncio.Runner(loop_factory=lambda: VirtualLoop(seed))
        self.rng = random.Random(seed)
        self.approved: list[str] = []
        self.turbulence: list[Turbulence] = []
        note(f"seed {seed}")

        async def start() -> None:
            self.fleet = Fleet(seed, programs=PROGRAMS, election=election)
            self.fleet.git.push(URL)
            self.fleet.users.project()
            if ordered:
                self.fleet.users.rollout(STEPS["dev"], STEPS["stage"], STEPS["prod"])
            self._provide_variables()
            for name in ("dev", "stage", "prod"):
                sets = [{"name": "shared"}] if name == "stage" else []
                self.fleet.users.workspace(
                    name, labels={"step": name}, autoApply=name not in manual, variableSetRef=sets
                )
            self.task = asyncio.get_running_loop().create_task(self.fleet.run())
            await asyncio.sleep(0.1)

        self._run(start())

    # --- people ---------------------------------------------------------------------------------------------------

    @rule(name=names, auto=st.booleans(), discard=st.booleans())
    def create(self, name: str, auto: bool, discard: bool) -> None:
        if self.fleet.users.find(name) is None:
            labels = {"step": name}
            self._now(self.fleet.users.workspace, name, labels=labels, autoApply=auto, discardStalePlan=discard)

    @rule(name=names, version=st.sampled_from(["1.9.8", "1.9.9"]), auto=st.booleans())
    def edit(self, name: str, version: str, auto: bool) -> None:
        self._now(self.fleet.users.edit, name, terraform={"version": version}, autoApply=auto)

    @rule(name=names, force=st.booleans())
    def delete(self, name: str, force: bool) -> None:
        self._now(self.fleet.users.delete, WORKSPACES, name)
        if force:
            self._now(self.fleet.users.annotate, name, force_delete="true")

    @rule(name=names)
    def approve(self, name: str) -> None:
        found = self.fleet.users.find(name)
        if found is not None and found.status.awaiting_approval is not None:
            self.approved.append(found.status.awaiting_approval.run_id)
        self._now(self.fleet.users.approve, name)

    @rule(name=names, request=st.sampled_from(["one", "two"]))
    def request(self, name: str, request: str) -> None:
        self._now(self.fleet.users.annotate, name, reconcile_request=request)

    @rule(name=names, interval=st.sampled_from(["15s", "1s", "soon", "3m", None]))
    def interval(self, name: str, interval: str | None) -> None:
        self._now(self.fleet.users.annotate, name, reconcile_interval=interval)

    @rule(name=names, value=st.sampled_from(["true", None]))
    def permit(self, name: str, value: str | None) -> None:
        self._now(self.fleet.users.annotate, name, execution_allowed=value)

    @rule(steps=st.lists(st.sampled_from(sorted(STEPS)), max_size=3, unique=True))
    def create_rollout(self, steps: list[str]) -> None:
        if not self.fleet.items(ROLLOUTS.resource):
            self._now(self.fleet.users.rollout, *(STEPS[step] for step in steps))

    @rule()
    def delete_rollout(self) -> None:
        self._now(self.fleet.users.delete, ROLLOUTS, "platform")

    @rule()
    def replace_project(self) -> None:
        if self.fleet.items(PROJECTS.resource):
            self._now(self.fleet.users.delete, PROJECTS, "platform")
        else:
            self._now(self.fleet.users.project)

    @rule(name=names, pods=st.booleans())
    def delete_what_runs(self, name: str, pods: bool) -> None:
        kind = PODS if pods else JOBS
        for item in self.fleet.items(kind.resource):
            if (item["metadata"].get("labels") or {}).get("magosproject.io/workspace") == name:
                self._now(self.fleet.users.delete, kind, item["metadata"]["name"])

    @rule(runner=st.booleans())
    def label_the_account(self, runner: bool) -> None:
        self._now(self.fleet.users.account, runner=runner)

    @rule(token=st.sampled_from(["one", "two", "three"]))
    def rotate(self, token: str) -> None:
        self._now(self.fleet.users.secret, "credentials", token=token)

    @rule(kind=st.sampled_from([SECRETS, VARIABLESETS]))
    def lose_inputs(self, kind: Kind[Any]) -> None:
        self._now(self.fleet.users.delete, kind, "credentials" if kind is SECRETS else "shared")

    # --- Git, policies, infrastructure ------------------------------------------------------------------------------

    @rule(plan=st.frozensets(names, max_size=1), apply=st.frozensets(names, max_size=1), empty=st.booleans())
    def push(self, plan: frozenset[str], apply: frozenset[str], empty: bool) -> None:
        self.fleet.git.push(URL, content="same" if empty else "", plan_fails=plan, apply_fails=apply)

    @rule()
    def force_back(self) -> None:
        self.fleet.git.force(URL, "main", self.rng.choice(list(self.fleet.git.repository(URL).commits)))

    @rule(reachable=st.booleans())
    def reach(self, reachable: bool) -> None:
        self.fleet.git.repository(URL).reachable = reachable

    @rule(name=names, action=st.sampled_from([None, *ViolationAction]))
    def violate(self, name: str, action: ViolationAction | None) -> None:
        found = () if action is None else (PolicyViolation(policy="p", message="m", action=action),)
        self.fleet.terraform.violations[name] = found

    @rule(name=names)
    def drift(self, name: str) -> None:
        self.fleet.terraform.drift((NAMESPACE, name))

    # --- the adversary ----------------------------------------------------------------------------------------------

    @rule(name=names, value=forged)
    def forge_permission(self, name: str, value: str) -> None:
        self._now(self.fleet.adversary.annotate, name, execution_allowed=value)

    @rule(name=names, sha=shas, source=st.sampled_from([None, "0" * 16, ""]))
    def forge_commit(self, name: str, sha: str, source: str | None) -> None:
        self._now(self.fleet.adversary.annotate, name, detected_revision=sha, detected_source=source)

    @rule(name=names, old=st.booleans())
    def forge_approval(self, name: str, old: bool) -> None:
        stale = self.approved[0] if old and self.approved else "20200101T000000-deadbeef"
        by = f'{{"runID": "{stale}", "principal": "root"}}'
        self._now(self.fleet.adversary.annotate, name, approved=stale, approved_by=by)

    @rule(name=names)
    def approve_in_advance(self, name: str) -> None:
        found = self.fleet.users.find(name)
        if found is not None and found.status.awaiting_approval is None:
            self._now(self.fleet.adversary.annotate, name, approved=found.status.current_run_id or "x")

    @rule(name=names)
    def take_the_claim(self, name: str) -> None:
        if not any(item["metadata"]["name"] == f"{name}-data" for item in self.fleet.items("persistentvolumeclaims")):
            self._now(self.fleet.adversary.create, PERSISTENT_VOLUME_CLAIMS, f"{name}-data", spec={})

    @rule(name=names, labelled=st.booleans())
    def take_the_next_job(self, name: str, labelled: bool) -> None:
        """A Job of somebody else under the very name that the next one is to have."""
        found = self.fleet.users.find(name)
        run = found.status.current_run if found is not None else None
        wanted = (run.apply_job if run.has_changes else run.plan_job) if run is not None else ""
        if not wanted or any(item["metadata"]["name"] == wanted for item in self.fleet.items(JOBS.resource)):
            return
        labels = {"magosproject.io/workspace": name} if labelled else {}
        spec = {"suspend": True, "template": {"spec": {"containers": [{"name": "x", "image": "x"}]}}}
        self._now(self.fleet.adversary.create, JOBS, wanted, metadata={"labels": labels}, spec=spec)

    # --- the cluster ------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.02, 0.2, 1.0, 3.0, 10.0, 60.0, 200.0]))
    def wait(self, seconds: float) -> None:
        self._run(asyncio.sleep(seconds))

    @rule(index=st.integers(0, 9))
    def kill(self, index: int) -> None:
        self._now(self.fleet.replicas[index % len(self.fleet.replicas)].kill)

    @rule(up=st.booleans())
    def node(self, up: bool) -> None:
        self.fleet.kubelet.up = up
        self._now(self.fleet.kubelet.wake)

    @rule(seconds=st.sampled_from([5.0, 20.0]))
    def turbulence_for_a_while(self, seconds: float) -> None:
        async def strike() -> None:
            self.turbulence.append(Turbulence(self.fleet.server, self.rng, seconds=seconds))
            await self.turbulence[-1].run()

        self._run(strike())

    # --- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def the_fleet_lives(self) -> None:
        if hasattr(self, "task") and self.task.done():
            self.task.result()
            raise AssertionError("the fleet ended by itself")

    def teardown(self) -> None:
        if not hasattr(self, "fleet"):
            return
        try:
            self._run(self._heal())
            found = self.fleet.violations()
            TALLY.histories += 1
            TALLY.faults += sum(each.faults for each in self.turbulence)
            TALLY.violations += len(found)
            for line in story(self.fleet.history.records) if found else ():
                note(line)
            assert not found, f"seed {self.fleet.seed}: " + "; ".join(map(str, found))
            hot = fastest(self.fleet.server.served, self.fleet.programs)
            assert hot.requests <= MOST_REQUESTS, f"seed {self.fleet.seed}: {hot}"
            self._run(self._check_end())
        finally:
            self.task.cancel()
            self.runner.close()
            structlog.configure(**self.logging)

    async def _heal(self) -> None:
        """Everything works again, nobody interferes, and time passes."""
        fleet = self.fleet
        fleet.server.faults.clear()
        fleet.kubelet.up = True
        fleet.kubelet.wake()
        fleet.git.repository(URL).reachable = True
        fleet.terraform.violations.clear()
        for kind in (JOBS, PERSISTENT_VOLUME_CLAIMS):
            for item in fleet.items(kind.resource):
                if not item["metadata"].get("ownerReferences"):
                    fleet.adversary.delete(kind, item["metadata"]["name"])
        fleet.git.push(URL)
        self._provide_variables()
        fleet.users.account(runner=True)
        await asyncio.sleep(HEALING_SECONDS / 2)
        for item in fleet.items(WORKSPACES.resource):
            fleet.users.approve(item["metadata"]["name"])
        await asyncio.sleep(HEALING_SECONDS / 2)

    def _provide_variables(self) -> None:
        """What the Workspace ``stage`` is given, made again if somebody deleted it."""
        self.fleet.users.secret("credentials", token="one")
        if not self.fleet.items(VARIABLESETS.resource):
            reference = {"secretKeyRef": {"name": "credentials", "key": "token"}}
            self.fleet.users.variable_set("shared", [{"name": "token", "valueFrom": reference}])

    async def _check_end(self) -> None:
        """Nothing hangs: whoever is being deleted is gone, nobody runs for ever, the last commit is not lost.

        The schedule goes on meanwhile: who has just been started by a tick is given the time of a run.
        """
        fleet = self.fleet
        for item in fleet.items(WORKSPACES.resource):
            assert "deletionTimestamp" not in item["metadata"], fleet.show()
            name = item["metadata"]["name"]
            await fleet.until(partial(self._has_ended, name), f"the end of {name}", within=RUN_SECONDS)

    def _has_ended(self, name: str) -> bool:
        """Tell whether a Workspace that may run by itself has come to its end."""
        fleet = self.fleet
        found = fleet.users.find(name)
        assert found is not None
        orchestrated = bool(fleet.items(PROJECTS.resource)) and not fleet.items(ROLLOUTS.resource)
        if not found.spec.auto_apply or found.status.awaiting_approval is not None or not orchestrated:
            return True
        phases = {Phase.APPLIED}
        if found.metadata.annotations.get("magosproject.io/reconcile-interval"):
            phases |= {Phase.PENDING, Phase.PLANNING, Phase.PLANNED, Phase.APPLYING}
        return found.status.phase in phases

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(what)

    def _now(self, what: Any, *arguments: Any, **named: Any) -> None:
        """Do something on the loop, and let the world go on for a moment."""

        async def do() -> None:
            what(*arguments, **named)
            await asyncio.sleep(self.rng.choice(_PAUSES))

        self._run(do())


Everybody.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=25,
    deadline=None,
    derandomize=not ROUND,
    database=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
TestUsersAndAdversary = Everybody.TestCase
