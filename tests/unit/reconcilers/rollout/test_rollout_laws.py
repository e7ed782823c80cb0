"""The laws of promotion, over fleets and step lists that hypothesis makes up (invariants I7 and I14 of the spec).

Whatever the members are doing and however the steps overlap:

* nobody is granted while a step before theirs has failed members or work other than drift; one step is granted at most;
* a commit is let through only to members behind which every earlier Workspace of the source has applied it;
* no steps, or a step that selects nobody, leave nobody with permission; a selector that means nothing grants none;
* a decision depends on nothing but the answers, not on their order, and carried out it wants nothing more.
"""

import contextlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from magos.api.annotations import EXECUTION_ALLOWED, TRUE
from magos.api.phases import GRANTABLE, WITH_PLAN, Phase
from magos.api.reasons import Reason
from magos.api.rollout import Rollout, RolloutStep
from magos.api.selectors import LabelSelector, LabelSelectorRequirement, compile_selector
from magos.api.triggers import Trigger
from magos.api.workspace import WORKSPACES, Source, Workspace
from magos.errors import InvariantViolation
from magos.reconcilers.revisions import applied_revision, pending_revision
from magos.reconcilers.rollout import evaluation as verdicts
from magos.reconcilers.rollout.cohorts import divide
from magos.reconcilers.rollout.machine import reconcile
from magos.reconcilers.rollout.memberstate import MemberState, member_state
from magos.reconcilers.rollout.progress import TABLE, Place, StepState, active_step
from magos.runtime.decision import PatchAnnotations
from tests.unit.reconcilers.fleet import Fleet, member, rollout
from tests.unit.reconcilers.model import LATER_SHA, OTHER_SHA, SHA, Crash

STAGES = ("dev", "staging", "prod")
SHAS = ("", SHA, OTHER_SHA, LATER_SHA)
MAIN = (
    Source(repo_url="https://git.example.com/demo.git", target_revision="main"),
    Source(repo_url="git@GIT.example.com:demo/", target_revision="refs/heads/main"),
)
"""One source in two spellings."""
SOURCES = (
    *MAIN,
    Source(repo_url="https://git.example.com/demo.git", target_revision="release"),
    Source(repo_url="https://git.example.com/demo.git", target_revision=SHA),
)
LAWS = settings(max_examples=150, deadline=None)


@st.composite
def workspaces(draw: st.DrawFn, name: str) -> Workspace:
    made = member(
        name,
        draw(st.sampled_from(["", *STAGES, *STAGES])),
        draw(st.sampled_from([None, *Phase, Phase.PENDING, Phase.APPLIED, Phase.APPLIED, Phase.APPLIED])),
        trigger=draw(st.sampled_from([*Trigger, Trigger.SCHEDULED])),
        pinned=draw(st.sampled_from(SHAS)),
        observed=draw(st.sampled_from(SHAS)),
        detected=draw(st.sampled_from(["", "", *SHAS])),
        request=draw(st.sampled_from(["", "", "", "r"])),
        gated=draw(st.booleans()),
        allowed=draw(st.booleans()),
        source=draw(st.sampled_from(SOURCES)),
    )
    lags = draw(st.integers(0, 9)) == 0
    return replace(made, metadata=replace(made.metadata, generation=2 if lags else 1))


@st.composite
def members(draw: st.DrawFn) -> list[Workspace]:
    return [draw(workspaces(f"w{number}")) for number in range(draw(st.integers(0, 7)))]


@st.composite
def rollouts(draw: st.DrawFn, *, nonsense: bool = False) -> Rollout:
    chosen = draw(st.lists(st.lists(st.sampled_from(STAGES), min_size=1, max_size=3), max_size=4))
    steps = []
    for number, stages in enumerate(chosen):
        wanted = LabelSelectorRequirement(key="stage", operator="In", values=tuple(stages))
        steps.append(RolloutStep(name=f"s{number}", selector=LabelSelector(match_expressions=(wanted,))))
    if nonsense:
        wrong = LabelSelectorRequirement(key="stage", operator="Like", values=("x",))
        steps.insert(0, RolloutStep(name="bad", selector=LabelSelector(match_expressions=(wrong,))))
    made = rollout(*steps)
    stored = draw(st.one_of(st.none(), st.integers(0, 5)))
    generation = draw(st.sampled_from([1, 1, 1, 2]))
    status = replace(made.status, current_step=stored, observed_generation=None if stored is None else 1)
    return replace(made, status=status, metadata=replace(made.metadata, generation=generation))


def step_of(made: Rollout, workspace: Workspace) -> int | None:
    """Independently of the code under test: the earliest step that selects the Workspace."""
    for index, each in enumerate(made.spec.strategy.steps):
        if compile_selector(each.selector).matches(workspace.metadata.labels):
            return index
    return None


def one_source(one: Workspace, other: Workspace) -> bool:
    """Independently of the code under test: equal, or both spellings of one source."""
    return one.spec.source == other.spec.source or {one.spec.source, other.spec.source} <= set(MAIN)


def granted(fleet: Fleet) -> tuple[set[str], set[str]]:
    """Do one pass and tell whom it has given and whom it has taken permission."""
    before = fleet.allowed
    fleet.step()
    after = fleet.allowed
    return after - before, before - after


@LAWS
@given(made=rollouts(), fleet=members())
def test_nobody_is_granted_behind_unfinished_work(made: Rollout, fleet: list[Workspace]) -> None:
    world = Fleet(made, fleet)
    given_to, _ = granted(world)
    places = {each.metadata.name: step_of(made, each) for each in fleet}
    steps = {places[name] for name in given_to}
    assert len(steps) <= 1
    assert None not in steps
    for name in given_to:
        for other in fleet:
            place, own = places[other.metadata.name], places[name]
            assert own is not None
            if place is not None and place < own:
                assert member_state(other) not in (MemberState.FAILED, MemberState.URGENT)
            if place == own:
                assert member_state(other) is not MemberState.FAILED
    by_name = {each.metadata.name: each for each in fleet}
    assert all(by_name[name].status.phase in GRANTABLE for name in given_to)


@LAWS
@given(made=rollouts(), fleet=members())
def test_a_commit_is_never_let_through_before_all_earlier_workspaces_applied_it(
    made: Rollout, fleet: list[Workspace]
) -> None:
    world = Fleet(made, fleet)
    given_to, _ = granted(world)
    for each in fleet:
        own = step_of(made, each)
        if each.metadata.name not in given_to or own is None:
            continue
        for other in fleet:
            place = step_of(made, other)
            if place is not None and place < own and one_source(other, each):
                assert pending_revision(each) != ""
                assert applied_revision(other) == pending_revision(each)
                run = each.status.current_run
                assert run is not None
                # or the grant would outlive the commit it was judged by
                assert each.status.phase in WITH_PLAN or run.revision == pending_revision(each)


@LAWS
@given(made=rollouts(), fleet=members())
def test_permission_remains_only_in_the_active_step(made: Rollout, fleet: list[Workspace]) -> None:
    world = Fleet(made, fleet)
    granted(world)
    status = world.rollout.status
    assert status.current_step is not None
    for each in world.all(WORKSPACES):
        if each.metadata.name in world.allowed:
            assert step_of(made, each) == status.current_step
    selected = [step_of(made, each) for each in fleet]
    nobody = [index for index in range(len(made.spec.strategy.steps)) if not _matches(made, index, fleet)]
    if nobody or not made.spec.strategy.steps:
        assert world.allowed == set()
        assert status.reason in (Reason.NO_WORKSPACES_FOUND, Reason.NO_STEPS)
        assert status.current_step == (nobody[0] if nobody else 0)
    else:
        assert 0 <= status.current_step <= len(made.spec.strategy.steps)
    assert status.unselected_workspaces == selected.count(None)


@settings(max_examples=50, deadline=None)
@given(made=rollouts(nonsense=True), fleet=members())
def test_a_selector_that_means_nothing_changes_nobody(made: Rollout, fleet: list[Workspace]) -> None:
    world = Fleet(made, fleet)
    assert granted(world) == (set(), set())
    assert world.rollout.status.reason == Reason.RECONCILE_ERROR
    assert world.rollout.status.current_step is not None


@LAWS
@given(made=rollouts(), fleet=members(), data=st.data())
def test_decisions_know_no_order_and_reach_a_fixpoint(
    made: Rollout, fleet: list[Workspace], data: st.DataObject
) -> None:
    world = Fleet(made, fleet)
    asked = world.decide()
    answers = {query: world.answer(query) for query in asked.queries}
    seen = world.observe(answers=answers)
    shuffled = replace(seen, members=tuple(data.draw(st.permutations(seen.members))))
    one, other = reconcile(seen), reconcile(shuffled)
    assert one.status == other.status
    assert sorted(map(repr, one.effects)) == sorted(map(repr, other.effects))
    kinds = [_gives(effect) for effect in one.effects if isinstance(effect, PatchAnnotations)]
    assert kinds == sorted(kinds), "what is taken goes before what is given"
    world.step()
    rest = world.decide()
    assert (rest.status, rest.effects, rest.events, rest.queries) == (None, (), (), ())


@settings(max_examples=100, deadline=None)
@given(made=rollouts(), fleet=members(), crash=st.integers(0, 6))
def test_a_pass_that_dies_at_any_step_is_finished_by_the_next(
    made: Rollout, fleet: list[Workspace], crash: int
) -> None:
    whole, cut = Fleet(made, fleet), Fleet(made, fleet)
    whole.settle()
    cut.crash_after = crash
    with contextlib.suppress(Crash):
        cut.step()
    cut.crash_after = None
    cut.settle()
    assert cut.allowed == whole.allowed
    assert cut.rollout.status == whole.rollout.status


@given(states=st.lists(st.sampled_from(list(StepState)), max_size=6), stored=st.integers(0, 6))
def test_the_active_step_is_as_the_spec_words_it(states: list[StepState], stored: int) -> None:
    urgent = [i for i, state in enumerate(states) if state in (StepState.FAILED, StepState.URGENT)]
    work = [i for i, state in enumerate(states) if state not in (StepState.SETTLED, StepState.EMPTY)]
    ahead = [i for i in work if i >= stored]
    candidates = [*urgent[:1], *ahead[:1]]
    expected = min(candidates) if candidates else (work[0] if work else len(states))
    assert active_step(states, stored) == expected


def test_the_table_of_progress_lists_every_pair() -> None:
    assert set(TABLE) == {(urgent, drift) for urgent in Place for drift in Place}


@pytest.mark.parametrize("state", [StepState.SETTLED, StepState.EMPTY])
def test_a_step_without_work_as_the_active_one_is_a_bug_and_says_so(
    state: StepState, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = [member("d", "dev")]
    cohorts = divide(rollout("dev").spec.strategy.steps, fleet)
    monkeypatch.setattr(verdicts, "states_of", lambda _: (state,))
    monkeypatch.setattr(verdicts, "active_step", lambda _states, _stored: 0)
    with pytest.raises(InvariantViolation):
        verdicts._progress(cohorts, 0)


@pytest.mark.parametrize("phase", [None, *Phase])
def test_every_phase_has_a_standing(phase: Phase | None) -> None:
    assert member_state(member("d", "dev", phase)) in MemberState


def _matches(made: Rollout, index: int, fleet: Sequence[Workspace]) -> bool:
    selector = compile_selector(made.spec.strategy.steps[index].selector)
    return any(selector.matches(each.metadata.labels) for each in fleet)


def _gives(effect: PatchAnnotations) -> bool:
    return effect.annotations[EXECUTION_ALLOWED] == TRUE
