"""The start of a plan and of an apply: the checks of spec §6.2.6 in their order, then the Job.

1. Permission, Jobs and pods are judged on live reads; the Job is created only if the Workspace is still at the version
   that was judged.
2. A start that waits says for what. A refused start is no run: permission is taken, phase Failed, no plan Job named.
3. Nothing is skipped because it cannot be judged: variables that are not resolved and policies that cannot be listed
   keep the plan from starting.
"""

from msgspec.structs import replace

from magos.api.conditions import shorten
from magos.api.likeness import credentials_hint
from magos.api.names import JobType, job_name
from magos.api.phases import WITH_PLAN, Phase
from magos.api.reasons import Reason, reason_in
from magos.api.triggers import Trigger
from magos.ids import RunID
from magos.reconcilers.permission import named_otherwise
from magos.reconcilers.workspace.evidence.situations import RefusedStart
from magos.reconcilers.workspace.evidence.triggers import Cause, higher, named_cause
from magos.reconcilers.workspace.handlers.finish import finish
from magos.reconcilers.workspace.handlers.reset import inputs_of, remove_permission, reset
from magos.reconcilers.workspace.handlers.starting.admission import Refused, judge_specs, judge_start, selected_policies
from magos.reconcilers.workspace.handlers.starting.blockers import Blocker, find_blocker, judge_claim, lost_claim
from magos.reconcilers.workspace.handlers.starting.identity import judge_identity, judge_namespace
from magos.reconcilers.workspace.handlers.starting.launch import create_apply, create_plan, store_policies
from magos.reconcilers.workspace.inputs.annotated import principal_of, read_annotations
from magos.reconcilers.workspace.inputs.layers import Awaiting
from magos.reconcilers.workspace.inputs.policies import SelectedPolicies
from magos.reconcilers.workspace.inputs.variables import Composition
from magos.reconcilers.workspace.move import Move, ask_all, ask_live, keep, to, warning
from magos.reconcilers.workspace.observation import Observation
from magos.runtime.decision import Effect, Event, Outcome


def await_permission(seen: Observation) -> Move:
    """Show who is expected to give permission, and why what the Workspace may carry is none."""
    workspace = seen.subject
    namespace, project = workspace.metadata.namespace, workspace.spec.project_ref.name
    if seen.project is None:
        message = (
            f"Project {namespace}/{project} does not exist: create it, or a Rollout of that name;"
            f" run {seen.run_id} waits for its permission."
        )
    else:
        message = (
            f"Run {seen.run_id} waits for permission from Project {namespace}/{project},"
            " or from the Rollout of the same name if there is one: see its message."
        )
    void = named_otherwise(workspace)
    if void:
        message = f"{message} The permission it carries does not count: it was given for {void}."
    phase = seen.phase or Phase.PENDING
    # Every run waits for a moment; it is worth a warning where somebody is missing or has taken permission back.
    odd = seen.project is None or (phase in WITH_PLAN and not void)
    told = seen.subject.status.reason == Reason.AWAITING_ROLLOUT
    return Move(
        status=to(seen, phase, Reason.AWAITING_ROLLOUT, message),
        events=(warning(seen, Reason.AWAITING_ROLLOUT, "Start", message),) if odd and not told else (),
        outcome=Outcome.WAITING,
    )


def start_plan(seen: Observation) -> Move:
    """Check everything and create the plan Job."""
    blocker = find_blocker(seen)
    if blocker is not None and seen.live:
        return _wait(seen, blocker)
    if not seen.complete:
        return ask_live(seen) if blocker is not None else ask_all(seen)
    judged = _judge(seen)
    if isinstance(judged, Refused):
        return refuse(seen, judged)
    return _wait(seen, judged) if isinstance(judged, Blocker) else judged


def _judge(seen: Observation) -> Move | Refused | Blocker:
    """Judge a complete observation by the checks from the third on."""
    refused = judge_identity(seen) or judge_start(seen)
    if refused is not None:
        return refused
    if isinstance(seen.inputs, Awaiting):
        return Blocker(reason=Reason.AWAITING_VARIABLES, message=seen.inputs.message)
    policies = selected_policies(seen)
    if isinstance(policies, Refused):
        return policies
    claim = judge_claim(seen)
    return claim if isinstance(claim, Refused | Blocker) else _launch(seen, claim, policies)


def _launch(seen: Observation, claim: tuple[Effect, ...], policies: SelectedPolicies | None) -> Move:
    """The inputs go to status in the write before the Job that gets them."""
    inputs = seen.inputs if isinstance(seen.inputs, Composition) else Composition()
    run = replace(
        seen.run,
        variables_fingerprint=inputs.fingerprint,
        variables=inputs.used,
        variable_sets=inputs.sets,
        policies_selected=len(policies.files) if policies is not None else None,
    )
    if inputs_of(run) != inputs_of(seen.run):  # not amended, because there is no Project that would tell of sets
        return Move(status=replace(seen.subject.status, current_run=run), effects=remove_permission(seen))
    return Move(
        status=replace(seen.subject.status, current_run=run) if run != seen.run else None,
        effects=(*claim, *store_policies(seen, policies), create_plan(seen, run, inputs, policies)),
        events=(*_secret_events(seen), *_policy_events(seen, policies)),
    )


def start_apply(seen: Observation) -> Move:
    """Create the apply Job of the plan that is stored."""
    if not (seen.run.plan_digest and seen.run.revision):
        message = (
            f"Status of run {seen.run_id} names no plan digest or no commit, so nothing can be applied; the next run"
            " plans again. Find out who wrote the status."
        )
        return finish(seen, Phase.FAILED, Reason.PLAN_MISMATCH, message)
    blocker = find_blocker(seen)
    if blocker is not None and seen.live:
        return replace(_hold(seen, blocker.message), effects=blocker.effects)
    if not seen.complete:
        return ask_live(seen) if blocker is not None else ask_all(seen)
    held = _judge_apply(seen)
    if held is not None:
        return held
    if not seen.run.apply_job:
        meta = seen.subject.metadata
        name = job_name(meta.namespace, meta.name, RunID(seen.run_id), JobType.APPLY)
        return Move(status=replace(seen.subject.status, current_run=replace(seen.run, apply_job=name)))
    return Move(effects=(create_apply(seen),))


def _judge_apply(seen: Observation) -> Move | None:
    """What keeps a plan from being applied, None if nothing does: identity, and the volume that the plan lies on."""
    if seen.claim is None:
        return finish(seen, Phase.FAILED, Reason.PLAN_MISMATCH, lost_claim(seen))
    claim = judge_claim(seen)
    refused = judge_identity(seen) or (claim if isinstance(claim, Refused) else None)
    if refused is not None:
        return _hold(seen, refused.message, refused.reason)
    return _hold(seen, claim.message) if isinstance(claim, Blocker) else None


def refuse(seen: Observation, refused: Refused) -> Move:
    """End a start that must not go on: a refusal is not a run."""
    run = replace(seen.run, plan_job="", apply_job="")
    served = run.request or seen.subject.status.last_handled_reconcile_request
    return Move(
        status=to(
            seen,
            Phase.FAILED,
            refused.reason,
            refused.message,
            current_run=run,
            last_handled_reconcile_request=served,
        ),
        effects=remove_permission(seen),
        events=(warning(seen, refused.reason, "Start", refused.message),),
    )


def rejudge(seen: Observation, found: RefusedStart) -> Move:
    """Judge a refused start again; once the checks pass, the run begins anew with its former trigger."""
    refused = judge_namespace(seen) or judge_specs(seen)
    if refused is None:
        if not seen.complete:
            return ask_all(seen)
        later = (each for each in (selected_policies(seen), judge_claim(seen)) if isinstance(each, Refused))
        refused = judge_identity(seen) or judge_start(seen) or next(later, None)
    if refused is None:
        # Sets that are not validated yet may still turn out to be unresolved: the next look tells.
        return keep(seen) if isinstance(seen.inputs, Awaiting) else restart(seen, found.cause)
    return _still_refused(seen, refused)


def _still_refused(seen: Observation, refused: Refused) -> Move:
    """Say so if the cause has changed, or if somebody asked again: that request is answered by this refusal."""
    status, annotations = seen.subject.status, seen.subject.metadata.annotations
    request = read_annotations(annotations).request
    asked = bool(request) and request != seen.run.request
    if (refused.reason, shorten(refused.message)) == (status.reason, status.message) and not asked:
        return keep(seen)
    run, served = seen.run, status.last_handled_reconcile_request
    if asked:
        principal = principal_of(seen.settings.vouched(annotations), request)
        run, served = replace(run, request=request, principal=principal), request
    return Move(
        status=to(
            seen,
            Phase.FAILED,
            refused.reason,
            refused.message,
            current_run=run,
            last_handled_reconcile_request=served,
        ),
        events=(warning(seen, refused.reason, "Start", refused.message),),
    )


def restart(seen: Observation, cause: Cause | None) -> Move:
    """Begin a refused run anew: with its former trigger, unless something of higher precedence has happened."""
    former = seen.subject.status.current_run_trigger
    trigger = former or Trigger.UNKNOWN
    if cause is not None and cause.trigger is not Trigger.RETRY:
        trigger = higher(former, cause.trigger)
    return reset(seen, named_cause(trigger))


def _wait(seen: Observation, blocker: Blocker) -> Move:
    """Say what a start waits for, and tell it once as an Event."""
    message = f"Run {seen.run_id} waits: {blocker.message}"
    told = seen.subject.status.reason == blocker.reason
    return Move(
        status=to(seen, Phase.PENDING, blocker.reason, message),
        events=() if told else (warning(seen, blocker.reason, "Start", message),),
        outcome=Outcome.WAITING,
    )


def _hold(seen: Observation, cause: str, reason: Reason | None = None) -> Move:
    """Keep a plan that cannot be applied yet, and say why; nothing is written while that stays the same.

    What a person has to put right is the reason of the phase, and told once as an Event.
    """
    phase, message = Phase(str(seen.phase)), f"Run {seen.run_id} is planned; its apply waits: {cause}"
    told = reason is None or seen.subject.status.reason == reason
    return Move(
        status=to(seen, phase, reason or reason_in(phase, ""), message),
        events=() if reason is None or told else (warning(seen, reason, "Start", message),),
        outcome=Outcome.WAITING,
    )


def _policy_events(seen: Observation, policies: SelectedPolicies | None) -> tuple[Event, ...]:
    if policies is None or policies.files:
        return ()
    selector = str(policies.selector) or "{}"
    note = (
        f"The policy selector {selector!r} selects no ValidatingPolicy: the plan of run {seen.run_id} is not checked."
    )
    return (warning(seen, "NoPoliciesMatched", "Start", note),)


def _secret_events(seen: Observation) -> tuple[Event, ...]:
    """What is odd about the namespace's repository Secrets without keeping the run from starting."""
    events: list[Event] = []
    secret = seen.secrets
    if secret is None:
        return ()
    if len(secret.names) > 1:
        note = (
            f"Secrets {', '.join(secret.names)} all name {seen.subject.spec.source.repo_url!r}: the oldest,"
            f" {secret.names[0]}, is used; delete the others."
        )
        events.append(warning(seen, "DuplicateRepositorySecret", "Start", note))
    if secret.incomplete:
        note = (
            f"Secret {', '.join(secret.incomplete)} is labelled as repository Secret but has no key repoURL, so it"
            " belongs to no repository: add the key."
        )
        events.append(warning(seen, Reason.INVALID_REPOSITORY_SECRET, "Start", note))
    if secret.similar:
        note = f"{credentials_hint(secret.similar)} Run {seen.run_id} goes without credentials."
        events.append(warning(seen, Reason.INVALID_REPOSITORY_SECRET, "Start", note))
    return tuple(events)
