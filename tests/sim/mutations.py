"""Breaks the product's guards one by one in a copy of the tree, and tells whether a test notices.

A mutation replaces one piece of text that must occur exactly once below ``where``; so it survives that code moves, and
says so when the guard is gone or has changed its words.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MUTATIONS", "Mutation", "main"]

_ROOT = Path(__file__).parents[2]
_COPIED = ("magos", "tests", "crds", "deploy", "samples", "pyproject.toml", "README.md")
_GUARDS = ("tests/sim/test_guards.py",)
_RUNTIME = ("tests/sim/test_effects.py", "tests/sim/test_controller.py")
_ENDS = ("tests/unit/reconcilers/workspace/handlers/test_ends.py",)
_TRANSITIONS = ("tests/unit/reconcilers/workspace/test_transitions.py",)
_VARIABLES = ("tests/unit/reconcilers/workspace/test_workspace_variables.py",)
_LATE_JOBS = ("tests/sim/test_late_jobs.py",)
_REPETITION = ("tests/unit/reconcilers/workspace/handlers/test_repetition.py",)
_INTERRUPTIONS = ("tests/unit/reconcilers/workspace/evidence/test_interruptions.py",)
_POLICIES = ("tests/unit/reconcilers/workspace/test_workspace_policies.py",)
_EXCHANGE = "tests/e2e/hostile/test_plan_exchange.py::test_no_exchange_at_any_moment_makes_two_plans_of_one"
_LEFT = "tests/e2e/hostile/test_leftover_files.py"
_STATE = "tests/unit/runner/test_state.py"
_TERMINAL = "tests/unit/cli/test_terminal.py"
_FULL = "tests/unit/runner/test_full_volume.py"
_CACHES = "tests/unit/runner/test_caches.py"
_IDENTITY = ("tests/unit/reconcilers/workspace/handlers/starting/test_identity.py",)
_JOBS = ("tests/unit/reconcilers/workspace/test_guards_of_jobs.py",)
_MANIFESTS = ("tests/unit/reconcilers/workspace/pod/test_jobs.py",)
_CANARIES = "tests/e2e/hostile/test_canaries_of_stages.py::test_a_stage_holds_its_own_secrets_and_no_others"
_STAGES = "tests/e2e/runner/test_runner_stages.py"
_LASTING = (
    "tests/sim/test_lasting_faults.py::test_watch_events_of_own_writes_do_not_cut_the_pauses_short",
    "tests/sim/test_lasting_faults.py::test_a_refusal_that_was_told_is_asked_for_again_with_growing_pauses",
    "tests/sim/test_lasting_faults.py::test_trouble_is_shown_within_a_minute_and_no_more_once_it_is_over",
    "tests/sim/test_lasting_faults_fleet.py",
)
_STOPS = ("tests/sim/test_emergency_stop.py",)
_PERMISSION = (
    "tests/unit/reconcilers/test_permission.py",
    "tests/unit/reconcilers/test_project.py",
    "tests/unit/reconcilers/rollout/test_promotion_race.py",
)
_GRANTS = ("tests/sim/test_grants.py::test_permission_does_not_outlive_a_reset_that_dies_even_if_its_jobs_are_removed",)
_TRIGGERS = ("tests/unit/reconcilers/workspace/evidence/test_triggers.py",)
_HOSTILE = ("tests/unit/runtime/client/test_hostile_objects.py",)
_VIEW = ("tests/unit/runtime/controller/test_view.py", "tests/unit/reconcilers/test_unreadable.py")
_AGENT = ("tests/unit/git/test_git_agent.py",)
_STOLEN = "tests/e2e/hostile/test_stolen_credentials.py"
_ACCESS = ("tests/unit/git/test_git_access.py",)
_MASKING = ("tests/unit/runner/test_redact_wrapped.py", "tests/unit/runner/test_redact_parts.py")
_REFWATCHER_DOOR = ("tests/unit/apps/test_refwatcher_door.py",)
_ROLLOUT = ("tests/unit/reconcilers/rollout/test_rollout.py", "tests/unit/reconcilers/rollout/test_rollout_laws.py")
_SHARED = "tests/unit/reconcilers/rollout/test_shared_variables.py"
_HOSTS = ("tests/unit/reconcilers/refwatcher/test_refwatcher_hosts.py",)
_PACKS = ("tests/unit/git/test_git_packs.py",)
_TAGS = ("tests/unit/git/test_git_tags.py",)
_WIRE = ("tests/unit/git/test_git_wire.py",)
_CHILDREN = ("tests/unit/git/test_git_children.py",)
_OUTBOUND = ("tests/unit/outbound/test_outbound_connections.py",)
_PARSERS = ("tests/unit/git/test_git_parsers.py",)
_PEERS = ("tests/unit/outbound/test_outbound_peers.py",)
_REFWATCHER = ("tests/unit/reconcilers/refwatcher/test_refwatcher.py",)
_POLLS = ("tests/unit/reconcilers/refwatcher/test_refwatcher_schedule.py",)
_STORED_TIMES = ("tests/unit/reconcilers/test_stored_times.py",)
_DOWNLOADS = ("tests/unit/toolchain/test_toolchain_downloads.py",)
_LATE = ("tests/sim/test_late_effects.py::test_a_job_of_an_earlier_run_that_comes_late_holds_no_apply",)
_CLEANERS = ("tests/sim/test_cleaners.py",)
_SECOND = ("tests/sim/test_second_starts.py",)
_BINDING = ("tests/sim/test_binding.py",)
_PACE = ("tests/sim/test_pace.py",)
_NAMES = ("tests/sim/test_long_names.py",)
_FLEET_POLICIES = ("tests/sim/test_fleet_policies.py",)
_CLOCKS = ("tests/sim/test_clock_skew.py",)
_API = "tests/unit/server/"
_ASKING = "tests/unit/cli/test_asking.py"
_CLI_LOGIN = "tests/unit/cli/test_login.py"
_EXPLAIN = "tests/unit/explain/test_explain.py"
_PAGES = ("tests/unit/server/pages",)
_UI = ("tests/unit/ui",)
_ARCHIVE = ("tests/sim/test_archive.py::test_every_scene_leaves_complete_records_and_logs_whatever_fails",)
_DELIVERY = ("tests/unit/adapters/archivist/test_delivery.py",)
_RECORDS = ("tests/unit/reconcilers/workspace/handlers/test_recording.py",)
_RELEASES = ("tests/unit/reconcilers/archive/test_jobs.py",)
_WAITS = ("tests/unit/reconcilers/workspace/test_waiting_for_the_archive.py",)
_API_ACCESS = ("tests/unit/server/auth/test_access.py",)
_BEARERS = ("tests/unit/server/auth/test_bearer_tokens.py",)
_SESSIONS = ("tests/unit/server/auth/test_sessions.py",)
_LOGINS = ("tests/unit/server/auth/test_login.py",)
_ORIGINS = ("tests/unit/server/auth/test_origins.py",)
_GUESSES = ("tests/unit/server/auth/test_ratelimit.py",)
_DEX = ("tests/unit/server/auth/test_dex.py",)
_QUESTIONS = ("tests/unit/reconcilers/workspace/test_questions.py",)


@dataclass(frozen=True)
class Mutation:
    """One guard that is broken, and the tests of which at least one must fail."""

    name: str
    where: str
    old: str
    new: str
    tests: tuple[str, ...] = _GUARDS


MUTATIONS = (
    Mutation(
        "at rest: a tick that passed is written by itself",
        "magos/reconcilers/workspace",
        "passed = old.next_reconcile_time if schedule.due else summary.next_reconcile_time",
        "passed = summary.next_reconcile_time",
        ("tests/sim/test_waiting_writes.py",),
    ),
    Mutation(
        "at rest: failures that take turns are told each time",
        "magos/reconcilers/refwatcher",
        "return present.status == wanted.status and wanted.reason in seen.told",
        "return False",
        _REFWATCHER,
    ),
    Mutation(
        "at rest: what stands there already is written again",
        "magos/reconcilers/refwatcher",
        "if announcement.annotations.items() <= seen.workspace.metadata.annotations.items():",
        "if False:",
        _REFWATCHER,
    ),
    Mutation(
        "polls: a changed interval waits for the next answer",
        "magos/reconcilers/refwatcher",
        "if group.state is State.WAITING and (due := group.reckon()) != group.due:",
        "if group.state is State.WAITING and group.wanted is not None and (due := group.reckon()) != group.due:",
        _POLLS,
    ),
    Mutation(
        "polls: a poll that was asked for waits for the interval",
        "magos/reconcilers/refwatcher",
        "return max(due if self.wanted is None else min(due, self.wanted), self.not_before)",
        "return max(due, self.not_before)",
        _POLLS,
    ),
    Mutation(
        "stored times: any future is believed",
        "magos/reconcilers",
        "return begun + interval if believed(begun, now) else now",
        "return begun + interval",
        _STORED_TIMES,
    ),
    Mutation(
        "stored times: a tick in the future mutes the schedule",
        "magos/reconcilers",
        "if step != interval or not believed(stored, now, interval):",
        "if step != interval:",
        _STORED_TIMES,
    ),
    Mutation(
        "stored times: a start from the future has no age",
        "magos/reconcilers",
        "mark=(mark_seen(job, seen.now),) if begun is None else (),",
        "mark=(),",
        _STORED_TIMES,
    ),
    Mutation(
        "stored times: a refused mark ends the run",
        "magos/reconcilers",
        "effect.kind == JOBS and RESULT in effect.annotations:",
        "effect.kind == JOBS:",
        _STORED_TIMES,
    ),
    Mutation(
        "late: an apply Job starts by being created",
        "magos/reconcilers/workspace",
        "suspend=True if plan.job_type is JobType.APPLY else None,",
        "suspend=None,",
        _LATE_JOBS,
    ),
    Mutation(
        "late: a Job is let go whatever has changed meanwhile",
        "magos/runtime/controller",
        "        await self._require(action.unchanged, ledger)\n        version = ledger.expected(",
        "        version = ledger.expected(",
        ("tests/sim/test_effects.py",),
    ),
    Mutation(
        "late: a Job that status does not name stays",
        "magos/reconcilers/workspace",
        "return tuple(job for job in held if not _is_wanted(seen, job))",
        "return ()",
        _LATE_JOBS,
    ),
    Mutation(
        "late: a second Job under the name of the first may start",
        "magos/reconcilers/workspace",
        'named = run.apply_job_uid in ("", meta.uid)',
        "named = True",
        _JOBS,
    ),
    Mutation(
        "late: a Job that was never let go keeps a Workspace from being deleted",
        "magos/reconcilers/workspace",
        "if j.metadata.labels.get(JOB_TYPE) != JobType.PLAN and not is_held(j)",
        "if j.metadata.labels.get(JOB_TYPE) != JobType.PLAN",
        _LATE_JOBS,
    ),
    Mutation(
        "late: a Job that a person suspends is let go again",
        "magos/reconcilers/workspace",
        "return bool(job.spec.suspend) and RELEASED not in job.metadata.annotations and not job.ended",
        "return bool(job.spec.suspend) and not job.ended",
        _JOBS,
    ),
    Mutation(
        "volume: an apply uses whatever claim has the name",
        "magos/reconcilers/workspace",
        "refused = judge_identity(seen) or (claim if isinstance(claim, Refused) else None)",
        "refused = judge_identity(seen)",
        _JOBS,
    ),
    Mutation(
        "volume: an apply waits for a claim that is gone",
        "magos/reconcilers/workspace",
        "if seen.claim is None:",
        "if False:",
        _JOBS,
    ),
    Mutation(
        "policies: a result about other policies than were selected counts",
        "magos/reconcilers/workspace",
        "if told.evaluated != told.selected or selected not in (None, told.selected):",
        "if told.evaluated != told.selected:",
        _POLICIES,
    ),
    Mutation(
        "watch: the end of a labelled Job of somebody else wakes nobody",
        "magos/adapters",
        "return tuple(dict.fromkeys((*of_owner(change), *of_label(change))))",
        "return of_owner(change)",
        ("tests/sim/test_late_jobs.py",),
    ),
    Mutation(
        "interruptions: a plan is repeated without end",
        "magos/reconcilers/workspace",
        "if not seen.has_run or done >= MOST_REPETITIONS:",
        "if not seen.has_run:",
        _REPETITION,
    ),
    Mutation(
        "interruptions: a repetition does not pause",
        "magos/reconcilers/workspace",
        "if pending and paused_until(seen) is not None:",
        "if False:",
        _REPETITION,
    ),
    Mutation(
        "interruptions: the repetition has another trigger",
        "magos/reconcilers/workspace",
        "move = reset(seen, Cause(trigger=former, reason=Reason.INTERRUPTED), ending)",
        "move = reset(seen, Cause(trigger=Trigger.RETRY, reason=Reason.INTERRUPTED), ending)",
        _REPETITION,
    ),
    Mutation(
        "interruptions: a deadline counts as one",
        "magos/reconcilers/workspace",
        "if job is not None and job.failed is not None and job.failed.reason not in _BY_PODS:",
        "if False:",
        _INTERRUPTIONS,
    ),
    Mutation(
        "interruptions: what the runner says went wrong counts as one",
        "magos/reconcilers/workspace",
        "return result.reason == Reason.INTERRUPTED",
        "return True",
        _INTERRUPTIONS,
    ),
    Mutation(
        "interruptions: a Rollout takes them for faults of the configuration",
        "magos/reconcilers/rollout",
        "taken = [each for each in bad if each.status.reason in INTERRUPTIONS]",
        "taken: list[Workspace] = []",
        ("tests/sim/test_interruptions.py",),
    ),
    Mutation(
        "permission: anything but absence allows",
        "magos/api",
        "return annotations.get(EXECUTION_ALLOWED) == TRUE",
        "return EXECUTION_ALLOWED in annotations",
    ),
    Mutation(
        "permission: what it was given for does not matter",
        "magos/reconcilers",
        " and named in (None, granted_for(workspace))",
        "",
        (*_GRANTS, *_GUARDS),
    ),
    Mutation(
        "permission: counts for a run of another spec",
        "magos/reconcilers",
        '" ".join((run.spec_hash, run.variables_fingerprint, *sets))',
        '" ".join((run.variables_fingerprint, *sets))',
        _PERMISSION,
    ),
    Mutation(
        "permission: counts for a run with other variables",
        "magos/reconcilers",
        '" ".join((run.spec_hash, run.variables_fingerprint, *sets))',
        "run.spec_hash",
        _PERMISSION,
    ),
    Mutation(
        "permission: counts for another run of the same commit",
        "magos/reconcilers",
        'return f"{status.current_run_id}@{run.revision',
        'return f"@{run.revision',
        _PERMISSION,
    ),
    Mutation(
        "permission: without a name it survives another commit",
        "magos/reconcilers/workspace",
        "another = trigger in (Trigger.CONFIGURATION, Trigger.REVISION) or ",
        "another = ",
        _TRIGGERS,
    ),
    Mutation(
        "permission: without a name it survives a reset that dies",
        "magos/reconcilers/workspace",
        "    if unnamed(workspace) and not first:",
        "    if unnamed(workspace) and first:",
        _GRANTS,
    ),
    Mutation(
        "permission: the end of a reset takes that of the run that waits",
        "magos/reconcilers/workspace",
        "remove_annotations(seen, *APPROVAL), *map(delete_job, found.jobs)",
        "remove_annotations(seen, *PERMISSION, *APPROVAL), *map(delete_job, found.jobs)",
        _PERMISSION,
    ),
    Mutation(
        "permission: what an orchestrator gives is taken before an amendment",
        "magos/reconcilers",
        "return execution_allowed(annotations) and EXECUTION_GRANTED_FOR not in annotations",
        "return execution_allowed(annotations)",
        ("tests/sim/test_grants.py",),
    ),
    Mutation(
        "permission: is given before the run is amended",
        "magos/reconcilers",
        "return status.phase is Phase.PENDING and run.revision != pending_revision(workspace)",
        "return False",
        _PERMISSION,
    ),
    Mutation(
        "permission: is given before an edit is taken up",
        "magos/reconcilers",
        " or status.observed_generation != workspace.metadata.generation:",
        ":",
        _PERMISSION,
    ),
    Mutation(
        "permission: a Project does not wait for the run",
        "magos/reconcilers",
        "if can_be_granted(each) and _eligible_at",
        "if _eligible_at",
        _PERMISSION,
    ),
    Mutation(
        "permission: a Rollout does not wait for the run",
        "magos/reconcilers",
        "if each.metadata.name in free and can_be_granted(each)",
        "if each.metadata.name in free",
        _PERMISSION,
    ),
    Mutation(
        "permission: is given without saying for what",
        "magos/reconcilers",
        "return {EXECUTION_ALLOWED: TRUE, EXECUTION_GRANTED_FOR: granted_for(workspace)}",
        "return {EXECUTION_ALLOWED: TRUE}",
        _PERMISSION,
    ),
    Mutation(
        "permission: a name outlives the permission that is taken",
        "magos/reconcilers",
        "return _set_permission(member, dict.fromkeys(PERMISSION), ())",
        "return _set_permission(member, {PERMISSION[0]: None}, ())",
        _PERMISSION,
    ),
    Mutation(
        "phases: an unlisted transition is written",
        "magos/reconcilers/workspace",
        "if after is not None and not may_follow(before, after):",
        "if False:",
        _TRANSITIONS,
    ),
    Mutation(
        "phases: a phase that a stranger wrote stops the controller",
        "magos/reconcilers/workspace",
        "if before not in WORKSPACE_TRANSITIONS or (before is Phase.DELETING and meta.deletion_timestamp is None):",
        "if False:",
        _TRANSITIONS,
    ),
    Mutation(
        "principals: a name that anybody could have written is believed",
        "magos/reconcilers/workspace",
        "return annotations if self.verified_principals else {}",
        "return annotations",
        ("tests/unit/reconcilers/workspace/test_workspace_situations.py",),
    ),
    Mutation(
        "gate: any approval opens it",
        "magos/reconcilers/workspace",
        "approved = annotations.get(APPROVED) == waiting.run_id == seen.run_id",
        "approved = APPROVED in annotations",
    ),
    Mutation(
        "gate: an approval in advance counts",
        "magos/reconcilers/workspace",
        "early = remove_annotations(seen, *APPROVAL)",
        "early = ()",
    ),
    Mutation(
        "gate: autoApply false is ignored",
        "magos/reconcilers/workspace",
        "if audited or not seen.subject.spec.auto_apply:",
        "if audited:",
    ),
    Mutation(
        "gate: audit violations are ignored",
        "magos/reconcilers/workspace",
        "if audited or not seen.subject.spec.auto_apply:",
        "if not seen.subject.spec.auto_apply:",
    ),
    Mutation(
        "clocks: the age of a Job is by the API server's clock alone",
        "magos/reconcilers/workspace",
        'record.created_at if record is not None else ""',
        '""',
        _CLOCKS,
    ),
    Mutation(
        "late effects: a Job of an earlier run that came late holds the apply for ever",
        "magos/reconcilers/workspace",
        "effects=(delete_job(lingering),) if lingering.metadata.deletion_timestamp is None else (),",
        "",
        _LATE,
    ),
    Mutation(
        "cleaners: a saved result counts only while its pod is there",
        "magos/reconcilers/workspace/handlers",
        "    if saved is not None:\n        return judge(",
        "    if saved is not None and found.pods:\n        return judge(",
        _CLEANERS,
    ),
    Mutation(
        "second starts: a pod on a node that cannot be reached has ended",
        "magos/api/kube",
        'return self.status.phase in ("Succeeded", "Failed")',
        'return self.status.phase in ("Succeeded", "Failed", "Unknown")',
        _SECOND,
    ),
    Mutation(
        "binding: a pod starts on a claim that is being deleted",
        "magos/reconcilers/workspace/handlers",
        "if claim.metadata.deletion_timestamp is not None:",
        "if False:",
        _BINDING,
    ),
    Mutation(
        "pace: a cache that lags takes a Project from its Rollout and back",
        "magos/reconcilers",
        "if seen.rollout_live is None and old.reason == Reason.MANAGED_BY_ROLLOUT:",
        "if False:",
        _PACE,
    ),
    Mutation(
        "names: a claim is named after the beginning of a name",
        "magos/api",
        'return f"{workspace}-data"',
        'return f"{_cut(workspace)}-data"',
        _NAMES,
    ),
    Mutation(
        "names: a Job is named after the whole name",
        "magos/api",
        'return f"{_cut(workspace)}-{job_type}-',
        'return f"{workspace}-{job_type}-',
        _NAMES,
    ),
    Mutation(
        "policies of a fleet: what blocks a plan is not looked for in a result that claims success",
        "magos/reconcilers/workspace",
        "_BLOCKING = frozenset({ViolationAction.DENY, ViolationAction.WARN})",
        "_BLOCKING = frozenset({ViolationAction.DENY})",
        _FLEET_POLICIES,
    ),
    Mutation(
        "clocks: the Lease expires by the wall clock",
        "magos/runtime/leaderelection",
        "return self._seen_at + (duration or self._timing.lease)",
        "at = __import__('datetime').datetime.fromisoformat(self._seen.spec.renew_time)\n"
        "        late = (self._clock.now() - at).total_seconds()\n"
        "        return self._clock.monotonic() - late + (duration or self._timing.lease)",
        _CLOCKS,
    ),
    Mutation(
        "policies: Deny and Warn do not block",
        "magos/reconcilers/workspace",
        "_BLOCKING = frozenset({ViolationAction.DENY, ViolationAction.WARN})",
        "_BLOCKING: frozenset[ViolationAction] = frozenset()",
    ),
    Mutation(
        "digest: the apply is not told which plan",
        "magos/reconcilers/workspace",
        "(runnerpod.PLAN_DIGEST, plan.plan_digest),",
        '(runnerpod.PLAN_DIGEST, ""),',
    ),
    Mutation(
        "digest: a plan without one is applied",
        "magos/reconcilers/workspace",
        "return bool(result.revision) and (bool(result.plan_digest) or not result.has_changes)",
        "return bool(result.revision)",
        _ENDS,
    ),
    Mutation(
        "revision: a plan of another commit is applied",
        "magos/reconcilers/workspace",
        "if result.revision != seen.run.revision:",
        "if not seen.run.revision:",
    ),
    Mutation(
        "result: that of another run is believed",
        "magos/reconcilers/workspace",
        "if result.run_id != run_id or result.phase is not job_type:",
        "if result.phase is not job_type:",
        _ENDS,
    ),
    Mutation(
        "specification: a plan of another spec is applied",
        "magos/reconcilers/workspace",
        "(Trigger.CONFIGURATION, not seen.has_run or _configuration_changed(seen)),",
        "(Trigger.CONFIGURATION, not seen.has_run),",
    ),
    Mutation(
        "one runner: other pods are ignored",
        "magos/reconcilers/workspace",
        "    for pod in seen.pods:\n        if not pod.ended:\n            since",
        "    for pod in ():\n        if not pod.ended:\n            since",
    ),
    Mutation(
        "one runner: a reset deletes an apply that has not ended",
        "magos/reconcilers/workspace",
        "(job.ended or not applying or is_held(job))",
        "(job.ended or job is not applying or is_held(job))",
        _JOBS,
    ),
    Mutation(
        "one runner: Jobs of earlier runs that linger are ignored",
        "magos/reconcilers/workspace",
        "    if lingering is not None:\n",
        "    if lingering is seen:\n",
        _JOBS,
    ),
    Mutation(
        "one runner: an abandoned Job is deleted although a container of it started",
        "magos/reconcilers/workspace",
        "        and not any(map(pod_started, seen.pods_of_run(job_type)))\n",
        "",
        _JOBS,
    ),
    Mutation(
        "one runner: a claim of another owner is taken",
        "magos/reconcilers/workspace",
        "if owner is None or owner.uid != workspace.metadata.uid:",
        "if owner is None:",
        _JOBS,
    ),
    Mutation(
        "caches: those that are known to be behind are judged",
        "magos/reconcilers/workspace",
        "    if seen.stale and seen.denial is None:",
        "    if seen.stale and seen.live and seen.denial is None:",
        _JOBS,
    ),
    Mutation(
        "evidence: a stranger's pod speaks for a run",
        "magos/reconcilers/workspace",
        "own = (pod for pod in found if _is_of_job(pod, name, job))",
        "own = found",
        ("tests/unit/reconcilers/workspace/test_foreign_pods.py",),
    ),
    Mutation(
        "status: the end of a run speaks about a spec that was edited meanwhile",
        "magos/reconcilers/workspace",
        "    return status.observed_generation\n\n\ndef _annotation_events",
        "    return newest\n\n\ndef _annotation_events",
        _ENDS,
    ),
    Mutation(
        "identity: a plan takes any ServiceAccount",
        "magos/reconcilers/workspace",
        "    refused = judge_identity(seen) or judge_start(seen)\n    if",
        "    refused = judge_start(seen)\n    if",
        _IDENTITY,
    ),
    Mutation(
        "identity: an apply takes any ServiceAccount",
        "magos/reconcilers/workspace",
        "refused = judge_identity(seen) or (claim if",
        "refused = (claim if",
        _IDENTITY,
    ),
    Mutation(
        "identity: any value of the label counts",
        "magos/reconcilers/workspace",
        "    if label == _TRUE:\n",
        "    if label is not None:\n",
        _IDENTITY,
    ),
    Mutation(
        "identity: runs in the controllers' namespace",
        "magos/reconcilers/workspace",
        "    if namespace != seen.settings.refused_namespace:\n",
        "    if namespace:\n",
        _IDENTITY,
    ),
    Mutation(
        "identity: the controller does not know its own namespace",
        "magos/adapters",
        "        refused_namespace=_refused_namespace(environ, account),\n",
        "",
        ("tests/unit/apps/test_workspace_settings.py",),
    ),
    Mutation(
        "names: Workspaces whose names are cut share a ConfigMap of policies",
        "magos/api",
        "short_hash(f'{workspace}/{digest_hex}', 20)",
        "digest_hex[:10]",
        ("tests/unit/api/test_names.py",),
    ),
    Mutation(
        "resources: runner pods are the first to be evicted",
        "magos/reconcilers/workspace",
        "return DEFAULT_RESOURCES[stage] if own is None else own",
        "return Resources() if own is None else own",
        ("tests/unit/reconcilers/workspace/pod/test_jobs.py",),
    ),
    Mutation(
        "variables: an apply is not told the file that the plan was told",
        "magos/runner",
        "            arguments += self._var_file()\n",
        "            pass\n",
        ("tests/e2e/runner/test_runner_variables.py",),
    ),
    Mutation(
        "variables: a file that is overridden itself is named",
        "magos/runner",
        "+ sorted(each for each in present if each.endswith(_AUTO))",
        "+ sorted((each for each in present if each.endswith(_AUTO)), reverse=True)",
        ("tests/unit/runner/test_varfiles.py",),
    ),
    Mutation(
        "terminal: escape sequences of others are obeyed",
        "magos",
        "print(shown(text), file=",
        "print(text, file=",
        (_TERMINAL,),
    ),
    Mutation(
        "terminal: a message looks like a line of ours",
        "magos/cli",
        "{one_line(status.message)}",
        "{status.message}",
        (_TERMINAL,),
    ),
    Mutation(
        "resources: a volume of a runner pod may fill the node",
        "magos/reconcilers/workspace",
        "EmptyDirVolumeSource(size_limit=size_of(name))",
        "EmptyDirVolumeSource()",
        ("tests/unit/reconcilers/workspace/pod/test_jobs.py",),
    ),
    Mutation(
        "resources: a limit that was exceeded is not told",
        "magos/reconcilers/workspace",
        'limit = next((each.resources.limits.get("memory") for each in found), None)',
        "limit = None",
        _ENDS,
    ),
    Mutation(
        "deletion: gives up an apply whose container has started",
        "magos/reconcilers/workspace",
        "    if job.metadata.deletion_timestamp is not None or any(map(pod_started, pods)):\n",
        "    if job.metadata.deletion_timestamp is not None:\n",
        ("tests/unit/reconcilers/workspace/handlers/test_deletion.py",),
    ),
    Mutation(
        "deletion: gives up an apply by the cache alone",
        "magos/reconcilers/workspace",
        "    if not seen.live or (current and seen.warnings is None):\n",
        "    if False:\n",
        ("tests/unit/reconcilers/workspace/handlers/test_deletion.py",),
    ),
    Mutation(
        "deletion: does not wait for the apply",
        "magos/reconcilers/workspace",
        "    if not force_delete(meta.annotations):\n",
        "    if meta is None:\n",
    ),
    Mutation(
        "variables: a lagging cache is a change",
        "magos/reconcilers/workspace",
        "return trigger is Trigger.VARIABLES",
        "return False",
        _VARIABLES,
    ),
    Mutation(
        "variables: a plan that was approved is discarded",
        "magos/reconcilers/workspace",
        "if seen.gated else seen.run.approval is None",
        "if seen.gated else True",
        _VARIABLES,
    ),
    Mutation(
        "variables: a change does not stop an allowed apply",
        "magos/reconcilers/workspace",
        "if seen.gated else seen.run.approval is None",
        "if seen.gated else False",
        _VARIABLES,
    ),
    Mutation(
        "variables: what is unresolved is left out",
        "magos/reconcilers/workspace",
        "    if not isinstance(seen.inputs, Unresolved):",
        "    if True:",
        _VARIABLES,
    ),
    Mutation(
        "variables: a start is judged by the caches",
        "magos/reconcilers/workspace",
        "complete=all(fact is not None for fact in asked.values())",
        "complete=True",
        _VARIABLES,
    ),
    Mutation(
        "variables: a rotated one reaches the apply",
        "magos/reconcilers/workspace",
        "variables=apply_environment(seen.project_sets, seen.own_sets, run.variables)",
        "variables=plan_environment(seen.inputs)",
        _VARIABLES,
    ),
    Mutation(
        "policies: those that cannot be listed count as none",
        "magos/reconcilers/workspace",
        "if seen.policies_failure is not None or seen.policies is None:",
        "if False:",
        _POLICIES,
    ),
    Mutation(
        "policies: every stage sees them",
        "magos/reconcilers/workspace",
        "wanted = stage is Stage.JOB and plan.policies is not None",
        "wanted = plan.policies is not None",
        _POLICIES,
    ),
    Mutation(
        "stages: every stage gets the variables",
        "magos/reconcilers/workspace",
        "    if stage is Stage.TERRAFORM:\n        variables += plan.variables\n",
        "    if stage:\n        variables += plan.variables\n",
        _MANIFESTS,
    ),
    Mutation(
        "stages: every stage gets the Git credentials",
        "magos/reconcilers/workspace",
        "    if stage is Stage.FETCH:\n        variables += _git(plan.secret)\n",
        "    if stage:\n        variables += _git(plan.secret)\n",
        _MANIFESTS,
    ),
    Mutation(
        "stages: every stage gets the Secrets of the pod configuration",
        "magos/reconcilers/workspace",
        "    if stage is Stage.TERRAFORM:\n        return config.env, (",
        "    if stage:\n        return config.env, (",
        _MANIFESTS,
    ),
    Mutation(
        "stages: every stage gets the token of the ServiceAccount",
        "magos/reconcilers/workspace",
        "    if stage is Stage.TERRAFORM:\n        # Code of the configuration must not",
        "    if stage:\n        # Code of the configuration must not",
        _MANIFESTS,
    ),
    Mutation(
        "digest: a status without one lets an apply start",
        "magos/reconcilers/workspace",
        "if not (seen.run.plan_digest and seen.run.revision):",
        "if False:",
        ("tests/unit/reconcilers/workspace/handlers/starting/test_start.py",),
    ),
    Mutation(
        "digest: the runner applies whatever plan file is there",
        "magos/runner",
        "        if plan.digest != run.plan_digest:\n",
        "        if not plan.digest:\n",
        (f"{_STAGES}::test_only_the_plan_that_was_reported_is_applied",),
    ),
    Mutation(
        "revision: the runner applies another checkout",
        "magos/runner",
        "        if revision != run.revision:\n",
        "        if not revision:\n",
        (f"{_STAGES}::test_another_revision_than_the_planned_one_is_a_mismatch",),
    ),
    Mutation(
        "crash safety: a pod that is started twice works twice",
        "magos",
        "_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW",
        "_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW",
        ("tests/unit/runner/test_runner_parts.py",),
    ),
    Mutation(
        "credentials: the agent signs for another session",
        "magos/git",
        "            session == self._bound.session\n            and kind",
        "            kind",
        _AGENT,
    ),
    Mutation(
        "credentials: the agent believes any host key",
        "magos/git",
        'return wanted in markers and "@revoked" not in markers',
        "return True",
        _AGENT,
    ),
    Mutation(
        "credentials: the agent can be forwarded",
        "magos/git",
        "if forwarding or not identity.signed(signature, session)",
        "if not identity.signed(signature, session)",
        _AGENT,
    ),
    Mutation(
        "credentials: the host need not prove itself",
        "magos/git",
        "if forwarding or not identity.signed(signature, session)",
        "if forwarding",
        _AGENT,
    ),
    Mutation(
        "credentials: the proxy passes everything on",
        "magos/git",
        "if repository != target and _is_plain(repository):",
        "if _is_plain(repository):",
        _ACCESS,
    ),
    Mutation(
        "credentials: the proxy takes paths in disguise",
        "magos/git",
        'return not hidden and "%2f" not in path.lower()',
        "return True or not hidden",
        _ACCESS,
    ),
    Mutation(
        "credentials: the relay runs any command",
        "magos/git",
        "if not _COMMAND.fullmatch(command):",
        "if not command:",
        _ACCESS,
    ),
    Mutation(
        "credentials: any port of the host gets the login",
        "magos/git",
        "{parts.hostname.lower()} {parts.port or _PORTS[scheme]}",
        "{parts.hostname.lower()} {_PORTS[scheme]}",
        _ACCESS,
    ),
    Mutation(
        "credentials: the runner can be looked into",
        "magos/runner",
        "    _prctl(_PR_SET_DUMPABLE)\n",
        "    _prctl(_PR_GET_DUMPABLE)\n",
        (f"{_STOLEN}::test_nothing_in_the_pod_holds_the_login_while_modules_are_downloaded",),
    ),
    Mutation(
        "credentials: the OpenSSH client can be looked into",
        "magos/git",
        "_EXECUTE_ONLY: Final = 0o111",
        "_EXECUTE_ONLY: Final = 0o755",
        (f"{_STOLEN}::test_the_relay_only_fetches_and_nobody_reaches_its_client",),
    ),
    Mutation(
        "credentials: the agent answers anybody",
        "magos/git",
        "            if self._is_own_client(connection):\n",
        "            if connection:\n",
        (f"{_STOLEN}::test_the_relay_only_fetches_and_nobody_reaches_its_client",),
    ),
    Mutation(
        "credentials: a login lies beside the download",
        "magos/git",
        '    settings = [("credential.helper", "")]',
        '    (directory / "login").write_text(f"{credentials.password}{credentials.ssh_private_key}")\n'
        '    settings = [("credential.helper", "")]',
        (f"{_STOLEN}::test_modules_that_are_folders_of_the_container_copy_no_login[http-/work]",),
    ),
    Mutation(
        "credentials: the proxy outlives the download",
        "magos/git",
        "        service.end()\n        upstream.close()\n",
        "        upstream.close()\n",
        ("tests/e2e/git/test_git_ssh.py::test_the_proxy_ends_with_the_block_although_somebody_is_connected",),
    ),
    Mutation(
        "credentials: an answer may repeat the login",
        "magos/git",
        "if any(form in seen for form in self._forms):",
        "if not seen:",
        (f"{_STOLEN}::test_the_proxy_only_fetches_and_never_shows_the_login",),
    ),
    Mutation(
        "start: the tool may be older than the minimum",
        "magos/reconcilers/workspace",
        "    if not precedes(wanted.version, minimum):\n        return None\n",
        "    if minimum:\n        return None\n",
        ("tests/unit/reconcilers/workspace/handlers/starting/test_start.py",),
    ),
    Mutation(
        "volume: a link on the way is followed",
        "magos",
        "return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)",
        "return os.open(name, _FOLDER, dir_fd=parent)",
        ("tests/unit/runner/test_folder.py",),
    ),
    Mutation(
        "volume: a link in the last place is followed",
        "magos",
        "os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK",
        "os.O_RDONLY | os.O_NONBLOCK",
        ("tests/unit/runner/test_folder.py",),
    ),
    Mutation(
        "plan exchange: the copy is not sealed",
        "magos/runner",
        "        fcntl.fcntl(writing, fcntl.F_ADD_SEALS, _SEALS)\n",
        "",
        ("tests/unit/runner/test_sealed.py",),
    ),
    Mutation(
        "plan exchange: the tool applies the file on the volume",
        "magos/runner",
        "[*arguments, file.path]",
        '[*arguments, file.path if "show" in arguments else str(self._paths.inside(self._run.plan_file))]',
        (_EXCHANGE,),
    ),
    Mutation(
        "plan exchange: the tool shows the file on the volume",
        "magos/runner",
        "[*arguments, file.path]",
        '[*arguments, file.path if "apply" in arguments else str(self._paths.inside(self._run.plan_file))]',
        (_EXCHANGE,),
    ),
    Mutation(
        "plan exchange: the digest is taken once more at the end",
        "magos/runner",
        "        digest = parse_digest(rendered.plan_digest)\n",
        "        from magos.ids import digest_of\n\n"
        "        digest = digest_of(paths.inside(config.run.plan_file).read_bytes())\n",
        (_EXCHANGE,),
    ),
    Mutation(
        "left files: a state of the repository counts as unsaved",
        "magos/runner",
        "            checkout.free_errored_state(self._context.journal)\n",
        "",
        (f"{_LEFT}::test_a_committed_errored_state_is_neither_kept_nor_pushed",),
    ),
    Mutation(
        "left files: a kept state goes to any backend",
        "magos/runner",
        "    if _kept_place(volume, name) == backend.place:\n",
        "    if backend.place:\n",
        (f"{_LEFT}::test_a_kept_state_is_never_pushed_to_another_empty_backend",),
    ),
    Mutation(
        "left files: everybody reads what a run writes",
        "magos/runner",
        "        os.umask(_FOR_US_ALONE)",
        "        os.umask(0o022)",
        (f"{_LEFT}::test_what_a_run_writes_to_the_volume_is_for_its_owner_alone",),
    ),
    Mutation(
        "left files: the plan lies there while an apply runs code of the configuration",
        "magos/runner",
        "                own.remove(self._config.run.plan_name)\n                self._compare(plan)\n",
        "                self._compare(plan)\n",
        (f"{_CANARIES}[http-apply-variable]",),
    ),
    Mutation(
        "state: anywhere is good enough",
        "magos/runner",
        "    if not real.is_relative_to(volume) or real == volume:\n",
        "    if real == volume:\n",
        (_STATE,),
    ),
    Mutation(
        "state: options of the command line are not looked at",
        "magos/runner",
        '        if name == "TF_CLI_ARGS" or name.startswith("TF_CLI_ARGS_"):\n',
        "        if not name:\n",
        (_STATE,),
    ),
    Mutation(
        "state: the runner's own folders are good enough",
        "magos/runner",
        "for name in (RUNS, TOOLS, UNSAVED)]",
        "for name in ()]",
        ("tests/e2e/hostile/test_state_location.py",),
    ),
    Mutation(
        "promotion: another commit is good enough",
        "magos/reconcilers/rollout",
        "if not revision or applied_revision(each) != revision)",
        "if applied_revision(each) is None)",
    ),
    Mutation(
        "promotion: variables are nobody's business",
        "magos/reconcilers/rollout",
        "    return _variables_before(member, earlier)\n",
        "    return None\n",
        ("tests/sim/test_guards.py", _SHARED),
    ),
    Mutation(
        "promotion: a set of the Project is one's own",
        "magos/reconcilers/rollout",
        "return used.inherited or any(",
        "return any(",
        (_SHARED,),
    ),
    Mutation(
        "promotion: both wait for each other's variables",
        "magos/reconcilers/rollout",
        "    active = _waited_for(cohorts, active)\n",
        "",
        (_SHARED,),
    ),
    Mutation(
        "permission: without a name it survives other variables",
        "magos/reconcilers/workspace",
        " or inputs_of(fresh) != inputs_of(seen.run)",
        "",
        (_SHARED,),
    ),
    Mutation(
        "permission: survives other variables without a Project",
        "magos/reconcilers/workspace",
        "    if inputs_of(run) != inputs_of(seen.run):",
        "    if not run:",
        (_SHARED,),
    ),
    Mutation(
        "variables: what does not concern a Workspace is never applied there",
        "magos/reconcilers/workspace",
        "if inputs.fingerprint == known.fingerprint else",
        "if not known else",
        _VARIABLES,
    ),
    Mutation(
        "promotion: another spelling is another source",
        "magos/reconcilers/rollout",
        "if same_source(each.spec.source, source)]",
        "if each.spec.source == source]",
        ("tests/sim/test_rollout.py",),
    ),
    Mutation(
        "promotion: a bare name is no branch",
        "magos/api",
        'return frozenset({f"refs/heads/{target}", f"refs/tags/{target}"} | verbatim)',
        "return frozenset({target})",
        ("tests/unit/api/test_samesource.py",),
    ),
    Mutation(
        "promotion: a failed step stops nobody",
        "magos/reconcilers/rollout",
        "        return MemberState.FAILED",
        "        return MemberState.SETTLED",
    ),
    Mutation(
        "promotion: a working step holds nobody up",
        "magos/reconcilers/rollout",
        "    return MemberState.SETTLED if gated(member) else MemberState.DRIFT",
        "    return MemberState.DRIFT",
        _ROLLOUT,
    ),
    Mutation(
        "promotion: a step that selects nobody stops nobody",
        "magos/reconcilers/rollout",
        "    if cohorts.empty:\n",
        "    if not steps:\n",
        _ROLLOUT,
    ),
    Mutation(
        "promotion: what the caches say is enough for a grant",
        "magos/reconcilers/rollout",
        "    if seen.live or not (evaluation.grants or evaluation.revocations):\n",
        "    if evaluation:\n",
        _ROLLOUT,
    ),
    Mutation(
        "promotion: a commit that is only announced counts as recorded",
        "magos/reconcilers/rollout",
        "and _recorded_revision(member) != pending\n",
        "and not pending\n",
        ("tests/unit/reconcilers/rollout/test_promotion_race.py", *_ROLLOUT),
    ),
    Mutation(
        "orchestration: the Project grants beside a Rollout",
        "magos/reconcilers",
        "return self.rollout if self.rollout_live is None else self.rollout_live",
        "return False",
    ),
    Mutation(
        "orchestration: the Rollout is looked up in the cache alone",
        "magos/reconcilers",
        "return self.rollout if self.rollout_live is None else self.rollout_live",
        "return self.rollout",
    ),
    Mutation(
        "orchestration: a Rollout that is created anew leaves a gap",
        "magos/reconcilers",
        "        return Decision(status=status, requeue_at=start, outcome=Outcome.WAITING)\n",
        "        pass\n",
        ("tests/sim/test_rollout.py",),
    ),
    Mutation(
        "orchestration: a stored time makes the wait as long as it likes",
        "magos/reconcilers",
        "if stored is None else min(stored, latest)",
        "if stored is None else stored",
        ("tests/unit/reconcilers/test_project.py",),
    ),
    Mutation(
        "precondition: what was judged may have changed",
        "magos/runtime",
        "        if found != expected:\n",
        "        if not found:\n",
        (*_GUARDS, *_RUNTIME),
    ),
    Mutation(
        "precondition: a status is written over a newer one",
        "magos/runtime",
        'body = {"metadata": {"resourceVersion": version}, "status": patch}',
        'body = {"metadata": {}, "status": patch}',
        _RUNTIME,
    ),
    Mutation(
        "precondition: a grant goes to a version nobody judged",
        "magos/runtime",
        '        if version:\n            metadata["resourceVersion"] = version\n',
        "",
    ),
    Mutation(
        "crash safety: whatever has the name is ours",
        "magos/runtime",
        "    if ours is None and not action.identity:\n        return False",
        "    if action.identity:\n        return True",
        (*_GUARDS, *_RUNTIME),
    ),
    Mutation(
        "crash safety: our own Job found again is an error",
        "magos/runtime",
        "            if not _is_same(action, stored.metadata):\n",
        "            if stored is not None:\n",
        _RUNTIME,
    ),
    Mutation(
        "fence: who has lost the lease goes on writing",
        "magos/runtime",
        "        if not self._still_leading():\n",
        "        if not self._still_leading:\n",
        (*_RUNTIME, "tests/sim/test_manager.py"),
    ),
    Mutation(
        "own writes: a pass may see caches older than them",
        "magos/runtime",
        "        if state is CacheState.BEHIND:\n            return False\n",
        "",
        ("tests/sim/test_controller.py",),
    ),
    Mutation(
        "grants: nobody looks again at what they were judged by",
        "magos/runtime",
        "        if action.unchanged:\n",
        "        if action.unchanged and not action:\n",
        _STOPS,
    ),
    Mutation(
        "grants: the caches alone are asked whether the judgement still holds",
        "magos/runtime",
        "if now < ledger.confirmed_at + CONFIRM_EVERY and all(",
        "if all(",
        _RUNTIME,
    ),
    Mutation(
        "grants: a Rollout that appears does not stop a Project",
        "magos/reconcilers",
        'Unchanged(kind=ROLLOUTS, namespace=meta.namespace, name=meta.name, resource_version=""),',
        "",
        _STOPS,
    ),
    Mutation(
        "back-off: a write that never happened cuts it short",
        "magos/runtime",
        "        if not self.queue.backs_off(key):\n            self.queue.add(key, priority)",
        "        self.queue.add(key, priority)",
        _LASTING,
    ),
    Mutation(
        "back-off: a pass's own writes cut it short",
        "magos/runtime",
        "self._written.setdefault(key, set()).update(found)",
        "self._written.setdefault(key, set())",
        _LASTING,
    ),
    Mutation(
        "back-off: a refusal that was told is forgotten",
        "magos/runtime",
        "            if carry.refusal is None:\n                self.queue.forget(key)",
        "            if True:\n                self.queue.forget(key)",
        _LASTING,
    ),
    Mutation(
        "trouble: status says nothing of requests that fail",
        "magos/reconcilers",
        "wanted = () if trouble is None else (_condition(trouble),)",
        "wanted: tuple[Abnormal, ...] = ()",
        _LASTING,
    ),
    Mutation(
        "trouble: status goes on about requests that do not fail any more",
        "magos/runtime",
        "if self._troubles.ended(key):",
        "if self._troubles.ended(key) and not key:",
        _LASTING,
    ),
    Mutation(
        "one machine: ctrl-c cancels the closing of connections",
        "magos/local",
        "with anyio.CancelScope(shield=True):  # Ctrl-C cancels",
        "with anyio.CancelScope():  # Ctrl-C cancels",
        ("tests/unit/local/test_machine.py",),
    ),
    Mutation(
        "one machine: a database that does not start ends the demo",
        "magos/local",
        "except (MagosError, OSError) as error:\n        progress.say(",
        "except OSError as error:\n        progress.say(",
        ("tests/unit/local/test_stores.py",),
    ),
    Mutation(
        "one machine: the API server is open to the network",
        "magos/local",
        '[_API, "--address=127.0.0.1"]',
        "[_API]",
        ("tests/unit/local/test_deployment.py",),
    ),
    Mutation(
        "one machine: any client reads the logs of pods",
        "magos/local/controlplane",
        "context.verify_mode = ssl.CERT_REQUIRED",
        "context.verify_mode = ssl.CERT_OPTIONAL",
        ("tests/unit/local/controlplane/test_credentials.py",),
    ),
    Mutation(
        "one machine: a file of a volume lands outside it",
        "magos/local/node",
        "if not path.resolve().is_relative_to(fresh.resolve()):",
        "if not path:",
        ("tests/unit/local/node/test_volumes.py",),
    ),
    Mutation(
        "undecodable: managedFields count",
        "magos/runtime",
        "decoded = decoder.decode(_without_managed_fields(bytes(body)))",
        "raise",
        _HOSTILE,
    ),
    Mutation(
        "undecodable: a page is decoded as a whole or not at all",
        "magos/runtime",
        "return metadata, () if empty else tuple(body[first:last] for first, last in elements(body, start))",
        "raise ValueError(empty)",
        _HOSTILE,
    ),
    Mutation(
        "undecodable: a list with a hole is a list",
        "magos/runtime",
        "raise self.undecodable[0].unreadable(kind)",
        "return self.items",
        _HOSTILE,
    ),
    Mutation(
        "undecodable: a write whose answer cannot be read counts as refused",
        "magos/runtime",
        "error.unknown_outcome or error.gone or stored_but_unreadable:",
        "error.unknown_outcome or error.gone:",
        _HOSTILE,
    ),
    Mutation(
        "undecodable: the object counts as gone",
        "magos/runtime",
        "_refuse(kind, cache.quarantine.named(namespace, name))",
        "_refuse(kind, None)",
        _VIEW,
    ),
    Mutation(
        "undecodable: an index leaves it out",
        "magos/runtime",
        "return not slash or self._may_be_in(self.objects[key], namespace)",
        "return False",
        _VIEW,
    ),
    Mutation(
        "undecodable: a Project grants beside it",
        "magos/reconcilers",
        "        failure = QueryFailure(reason=UNREADABLE, message=str(error))",
        "        rollout = False if error else rollout",
        _VIEW,
    ),
    Mutation(
        "undecodable: a Rollout grants beside it",
        "magos/reconcilers",
        "failure = failure or QueryFailure(reason=UNREADABLE, message=str(error))",
        "failure = failure if error else None",
        _VIEW,
    ),
    Mutation(
        "undecodable: nobody is woken when it is gone",
        "magos/runtime",
        "for key in resting:",
        "for key in list(resting)[:0]:",
        ("tests/sim/test_manager.py",),
    ),
    Mutation(
        "tls: authorities without key identifiers are refused",
        "magos/runtime",
        "context.verify_flags &= ~ssl.VERIFY_X509_STRICT",
        "context.verify_flags |= ssl.VERIFY_X509_STRICT",
        ("tests/unit/runtime/client/test_tls.py",),
    ),
    Mutation(
        "remote: references that nobody asked for are kept",
        "magos/git",
        "        if name not in self._names:\n",
        "        if not name:\n",
        _WIRE,
    ),
    Mutation(
        "remote: a listing is kept whatever its size",
        "magos/git",
        "if self._kept > GIT_LISTING.limit:",
        "if self._kept < 0:",
        _WIRE,
    ),
    Mutation(
        "volume: nothing is removed before anything is created",
        "magos/runner",
        "removed = remove_other_runs(self._volume, self._run)",
        "removed = 0",
        (_FULL,),
    ),
    Mutation(
        "volume: a second start removes what another run has begun",
        "magos/runner",
        "        if started(self._volume, self._run):\n            return\n",
        "",
        (_FULL,),
    ),
    Mutation(
        "volume: the newest of the caches go first",
        "magos/runner",
        "key=lambda each: (each.used, each.name)):",
        "key=lambda each: (-each.used, each.name)):",
        (_CACHES,),
    ),
    Mutation(
        "volume: what a run needs is removed from the caches",
        "magos/runner",
        "if entry.name not in needed:",
        "if entry.name:",
        (_CACHES,),
    ),
    Mutation(
        "volume: caches outlive a state that must be kept",
        "magos/runner",
        "victims(self._entries(), frozenset(), inf)",
        "victims(self._entries(), self._needed(), inf)",
        (_FULL,),
    ),
    Mutation(
        "volume: a full volume that something wraps is not told",
        "magos/runner",
        "        cause = cause.__cause__\n",
        "        cause = None\n",
        ("tests/unit/runner/test_space.py",),
    ),
    Mutation(
        "hosts: repositories that are not well take the place of the others",
        "magos/reconcilers/refwatcher",
        ">= max(1, self._half - 1):",
        ">= self._half:",
        _HOSTS,
    ),
    Mutation(
        "hosts: a server that answers no more is not recognised",
        "magos/reconcilers/refwatcher",
        "return not host.slow or host.busy[lane] == 0",
        "return True",
        _HOSTS,
    ),
    Mutation(
        "hosts: slow repositories wait with the others",
        "magos/reconcilers/refwatcher",
        "return lane is Lane.NEW or host.busy[lane] == 0",
        "return True",
        _HOSTS,
    ),
    Mutation(
        "packs: what an object declares is not judged",
        "magos/git",
        "            self.judge(_declared(contents[offset : offset + _LONGEST_HEAD]), 0)\n",
        "",
        _PACKS,
    ),
    Mutation(
        "packs: what a delta makes is not judged",
        "magos/git",
        "                self.judge(result, base)\n",
        "",
        _PACKS,
    ),
    Mutation(
        "tags: a tag of a directory counts as a commit",
        "magos/git",
        "    if tip.kind is Kind.COMMIT:\n",
        "    if tip.kind is not Kind.TAG:\n",
        _TAGS,
    ),
    Mutation(
        "tags: what one repository sent answers for others",
        "magos/git",
        "url, wanted = str(remote.access.url), set(ids)",
        "url, wanted = '', set(ids)",
        _TAGS,
    ),
    Mutation(
        "tags: all that was ever seen is remembered",
        "magos/git",
        "while len(self._known) > self._limit:",
        "while not self._known:",
        _TAGS,
    ),
    Mutation(
        "remote: what ssh says is not counted",
        "magos/git",
        "self._received(len(data))\n                except",
        "self._received(0)\n                except",
        _WIRE,
    ),
    Mutation(
        "remote: what ssh says is kept whole",
        "magos/git",
        "            del self._tail[:excess]\n",
        "",
        _WIRE,
    ),
    Mutation(
        "remote: half a line of what was lost is told",
        "magos/git",
        "            if self._lost:\n",
        "            if self._lost < 0:\n",
        _WIRE,
    ),
    Mutation(
        "remote: what comes after the deadline is taken",
        "magos/git",
        "        self.deadline.check()  # what",
        "        # what",
        _WIRE,
    ),
    Mutation(
        "remote: ssh may write files",
        "magos/git",
        'return ["sh", "-c", _CONFINED, *arguments]',
        "return arguments",
        _CHILDREN,
    ),
    Mutation(
        "remote: a name may take for ever",
        "magos/outbound",
        "return _Lookup(host, port).wait(seconds)",
        "return _resolve(host, port)",
        _OUTBOUND,
    ),
    Mutation(
        "remote: look-ups pile up",
        "magos/outbound",
        "if not _lookups.acquire(timeout=seconds):",
        "if False:",
        _OUTBOUND,
    ),
    Mutation(
        "remote: each address has the whole time",
        "magos/outbound",
        "        left = end - monotonic()\n",
        "        left = seconds\n",
        _OUTBOUND,
    ),
    Mutation(
        "remote: headers have no limit of their own",
        "magos/outbound",
        "                if self._allowed < 0:",
        "                if False:",
        _DOWNLOADS,
    ),
    Mutation(
        "remote: what comes beside the body is not counted",
        "magos/outbound",
        "            self._guard.received(size)\n",
        "            self._guard.received(0)\n",
        _DOWNLOADS,
    ),
    Mutation(
        "download: https is left for http",
        "magos/toolchain",
        'if source.startswith("https:") and',
        "if not source and",
        _DOWNLOADS,
    ),
    Mutation(
        "download: what is compressed is taken",
        "magos/toolchain",
        'if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":',
        "if not response:",
        _DOWNLOADS,
    ),
    Mutation(
        "download: a login follows a redirect",
        "magos/toolchain",
        "if first.auth and (url.scheme, url.host, url.port) == (first.scheme, first.host, first.port):",
        "if first.auth:",
        _DOWNLOADS,
    ),
    Mutation(
        "content: gitmodules include other files",
        "magos/git",
        "BytesIO(gitmodules), expand_includes=False)",
        "BytesIO(gitmodules))",
        _PARSERS,
    ),
    Mutation(
        "content: gitmodules of any size are parsed",
        "magos/git",
        "if len(gitmodules) > GITMODULES.limit:",
        "if not GITMODULES:",
        _PARSERS,
    ),
    Mutation(
        "content: a directory of any size is parsed",
        "magos/git",
        "if kind == Tree.type_num and len(raw) > TREE_OBJECT.limit:",
        "if kind == Tree.type_num and not TREE_OBJECT:",
        _PARSERS,
    ),
    Mutation(
        "content: a commit of any size is parsed",
        "magos/git",
        "if commit.raw_length() > COMMIT_OBJECT.limit:",
        "if not COMMIT_OBJECT:",
        _PARSERS,
    ),
    Mutation(
        "peers: the address that a name resolves to is not judged",
        "magos/outbound",
        "for family, address in found if peers.permits(address[0])]",
        "for family, address in found]",
        _PEERS,
    ),
    Mutation(
        "peers: IPv4 inside IPv6 is not judged",
        "magos/outbound",
        "return [own] if inner is None else [own, inner]",
        "return [own]",
        _PEERS,
    ),
    Mutation(
        "peers: ssh resolves the name itself",
        "magos/git",
        "        arguments += self._pinned(host, port or 22)\n",
        "",
        _PEERS,
    ),
    Mutation(
        "peers: a message tells what a redirect led to",
        "magos/git",
        "if _origin(url) != self._repo.origin and not self._deadline.expired():",
        "if not url:",
        _PEERS,
    ),
    Mutation(
        "masking: a secret that a formatter wrapped is not recognised",
        "magos/masking",
        "self._spans += self._unwrapper.read(self._held, end, final=final)",
        "self._unwrapper.read(self._held, end, final=final)",
        _MASKING,
    ),
    Mutation(
        "masking: a line is passed on although a secret may go on in the next",
        "magos/masking",
        "return self._release(min(end, self._unwrapper.settled()))",
        "return self._release(end)",
        _MASKING,
    ),
    Mutation(
        "masking: the gutter of the tool separates nothing",
        "magos/masking",
        "self._at_line_start = stop, newline >= 0",
        "self._at_line_start = stop, False",
        _MASKING,
    ),
    Mutation(
        "masking: only heads of long forms are compared",
        "magos/masking",
        'return form if text.startswith(form, start) else b""',
        "return form",
        _MASKING,
    ),
    Mutation(
        "masking: a weak password in a structured secret counts as a plain word",
        "magos/masking",
        "and bool(_PLAIN.fullmatch(text)) and not _CALLED_SECRET.search(name)",
        "and bool(_PLAIN.fullmatch(text))",
        _MASKING,
    ),
    Mutation(
        "masking: plain words in a structured secret mask advice",
        "magos/masking",
        "if not (name and _is_plain(name, text)):",
        "if text:",
        _MASKING,
    ),
    Mutation(
        "masking: our own words are masked with those of others",
        "magos",
        "part.text if part.own else mask(part.text) for part in text.parts",
        "mask(part.text) for part in text.parts",
        ("tests/unit/test_message.py",),
    ),
    Mutation(
        "masking: words of others pass as our own",
        "magos",
        "parts.append(Part(shown, own=False))",
        "parts.append(Part(shown, own=True))",
        ("tests/unit/test_message.py",),
    ),
    Mutation(
        "masking: what a server repeats reaches condition and Event",
        "magos/adapters",
        "return Failure(error.reason, _masked(error.message, credentials))",
        "return Failure(error.reason, error.message)",
        _REFWATCHER_DOOR,
    ),
    Mutation(
        "masking: an echo is recognised only in one piece",
        "magos/masking",
        "spans.append((places[start], places[stop - 1] + 1))",
        "continue",
        _REFWATCHER_DOOR,
    ),
    Mutation(
        "masking: the traceback of a poll shows the credentials",
        "magos/adapters",
        "raise ListingCrashed(_masked(text, request.credentials)) from None",
        "raise ListingCrashed(text) from None",
        _REFWATCHER_DOOR,
    ),
    Mutation(
        "masking: job does not know the values of Secret-backed variables",
        "magos/runner",
        "context.journal.mask_too(secret_forms(secret_values(plan, config.secret_variables)))",
        "pass",
        ("tests/unit/runner/test_secret_variables.py",),
    ),
    Mutation(
        "masking: job is not told which variables come from Secrets",
        "magos/reconcilers/workspace",
        "if stage in (Stage.RENDER, Stage.JOB):  # they have no variables",
        "if stage in (Stage.RENDER,):  # they have no variables",
        ("tests/unit/reconcilers/workspace/pod/test_jobs.py",),
    ),
    Mutation(
        "masking: a token that the kubelet exchanged is not read again",
        "magos/runner",
        "if self._seen and all(_version(path) == version for path, version in self._seen.items()):",
        "if self._seen:",
        ("tests/unit/runner/test_journal.py",),
    ),
    Mutation(
        "masking: what arrived before a token was exchanged is not looked at again",
        "magos/masking",
        "self._unwrapper.begin(at_line_start=self._at_line_start)\n        self._examined = 0",
        "self._unwrapper.begin(at_line_start=self._at_line_start)",
        ("tests/unit/runner/test_journal.py", "tests/unit/runner/test_redact_wrapped.py"),
    ),
    Mutation(
        "masking: standard error passes the door unmasked",
        "magos/runner",
        "sys.stderr = door\n",
        "sys.stderr = before\n",
        ("tests/unit/runner/test_journal.py",),
    ),
    Mutation(
        "history: a late start reopens a run",
        "magos/history",
        'f" WHEN {old} THEN old.{name} WHEN {new} THEN excluded.{name}"',
        'f" WHEN {new} THEN excluded.{name} WHEN {old} THEN COALESCE(excluded.{name}, old.{name})"',
        ("tests/e2e/history/test_history_writes.py",),
    ),
    Mutation(
        "history: a later end replaces the first",
        "magos/history",
        'THEN COALESCE(old.{name}, excluded.{name})"\n        f" WHEN',
        'THEN COALESCE(excluded.{name}, old.{name})"\n        f" WHEN',
        ("tests/e2e/history/test_history_writes.py",),
    ),
    Mutation(
        "history: the order of writes decides",
        "magos/history",
        "CASE WHEN {new} OR NOT {old} THEN",
        "CASE WHEN true THEN",
        ("tests/e2e/history/test_history_writes.py",),
    ),
    Mutation(
        "history: unknown replaces known",
        "magos/history",
        'THEN COALESCE(excluded.{name}, old.{name})"\n        f" ELSE',
        'THEN excluded.{name}"\n        f" ELSE',
        ("tests/e2e/history/test_history_writes.py",),
    ),
    Mutation(
        "history: a text that cannot be stored blocks the queue",
        "magos/history",
        'return _NOT_STORABLE.sub("\\N{REPLACEMENT CHARACTER}", text)',
        "return text",
        ("tests/unit/history/test_history_rows.py",),
    ),
    Mutation(
        "history: two processes migrate at once",
        "magos/history",
        "SELECT pg_advisory_xact_lock($1::bigint)",
        "SELECT $1::bigint",
        ("tests/e2e/history/test_history_schema.py",),
    ),
    Mutation(
        "history: tables that came while waiting are not seen",
        "magos/history",
        "    await session.execute(_LEDGER)\n    version = int(await session.fetchval(_VERSION))",
        "    version = await schema_version(session)\n    await session.execute(_LEDGER)",
        ("tests/e2e/history/test_history_schema.py",),
    ),
    Mutation(
        "history: statements stay on connections",
        "magos/history",
        "statement_cache_size=0",
        "statement_cache_size=100",
        ("tests/e2e/history/test_history_pooler.py",),
    ),
    Mutation(
        "history: names in certificates do not matter",
        "magos/history",
        "context.check_hostname = mode is SSLMode.VERIFY_FULL",
        "context.check_hostname = False",
        ("tests/e2e/history/test_history_pooler.py",),
    ),
    Mutation(
        "history: a fail-over is an error",
        "magos/history",
        "    asyncpg.ReadOnlySQLTransactionError,\n",
        "",
        ("tests/e2e/history/test_history_trouble.py",),
    ),
    Mutation(
        "history: neighbours of a broken connection are used",
        "magos/history",
        "await self._pool.expire_connections()",
        "pass",
        ("tests/e2e/history/test_history_trouble.py",),
    ),
    Mutation(
        "history: the server waits for ever",
        "magos/history",
        "async with asyncio.timeout(seconds):",
        "async with asyncio.timeout(None):",
        ("tests/e2e/history/test_history_trouble.py",),
    ),
    Mutation(
        "history: calls to a dead server queue up",
        "magos/history",
        "async with asyncio.timeout(self._timeout):\n                await self._one",
        "async with asyncio.timeout(None):\n                await self._one",
        ("tests/e2e/history/test_history_trouble.py",),
    ),
    Mutation(
        "history: an error shows the password",
        "magos/history",
        'return said.replace(self._settings.password, "***") if self._settings.password else said',
        "return said",
        ("tests/unit/history/test_history_database.py",),
    ),
    Mutation(
        "history: settings show the password",
        "magos/history",
        'f"PostgresSettings({self.username}@',
        'f"PostgresSettings({self.username}:{self.password}@',
        ("tests/unit/history/test_history_settings.py",),
    ),
    Mutation(
        "history: a UID opens the history of another name",
        "magos/history",
        "WHERE ws_uid = $1 AND namespace = $2 AND workspace = $3\n",
        "WHERE ws_uid = $1 AND $2 <> '' AND $3 <> ''\n",
        ("tests/e2e/history/test_history_pages.py",),
    ),
    Mutation(
        "history: a cursor changes its Workspace",
        "magos/history",
        "if behind is not None and uid and uid != behind.uid:",
        "if False:",
        ("tests/e2e/history/test_history_pages.py",),
    ),
    Mutation(
        "history: equal times hide runs",
        "magos/history",
        "(ordered_at, run_id) < ($4::timestamptz, $5::text)",
        "(ordered_at < $4::timestamptz OR $5::text IS NULL)",
        ("tests/e2e/history/test_history_pages.py",),
    ),
    Mutation(
        "history: anything is a cursor",
        "magos/history",
        'if given != text or "\\0" in',
        'if "\\0" in',
        ("tests/unit/history/test_history_cursor.py",),
    ),
    Mutation(
        "retention: rows go without their logs",
        "magos/history",
        "if archive is not None and keys:",
        "if False:",
        ("tests/unit/history/test_history_retention.py",),
    ),
    Mutation(
        "retention: an unfinished run goes",
        "magos/history",
        "(c.ended AND c.ended_since > $1)",
        "(c.ended_since >= $1 AND NOT c.lone)",
        ("tests/e2e/history/test_history_retention.py",),
    ),
    Mutation(
        "retention: an unfinished run takes a place",
        "magos/history",
        "count(*) FILTER (WHERE ended) OVER",
        "count(*) OVER",
        ("tests/e2e/history/test_history_retention.py",),
    ),
    Mutation(
        "retention: phases without a run stay for ever",
        "magos/history",
        "(c.lone AND c.ended_since >= $1)",
        "false",
        ("tests/e2e/history/test_history_retention.py",),
    ),
    Mutation(
        "retention: a Workspace that exists counts as deleted",
        "magos/history",
        "            await session.execute(_REVIVE, uids)\n",
        "",
        ("tests/e2e/history/test_history_retention.py",),
    ),
    Mutation(
        "logs: a line that is read again is taken for a new one",
        "magos/joblog",
        "return self._recognised or at > self._newest",
        "return True",
        ("tests/unit/joblog",),
    ),
    Mutation(
        "logs: lines of one time are told apart by their number only as far as they are remembered",
        "magos/joblog",
        "self._skip = self._before",
        "self._skip = 0",
        ("tests/unit/joblog",),
    ),
    Mutation(
        "logs: a line a little out of order is lost over a break",
        "magos/joblog",
        "earliest // 1_000_000_000 - _OUT_OF_ORDER_SECONDS",
        "earliest // 1_000_000_000",
        ("tests/unit/joblog",),
    ),
    Mutation(
        "logs: parts of a line that are out are sent again over a break",
        "magos/joblog",
        "self._known_pieces = self._pieces",
        "pass",
        ("tests/unit/joblog",),
    ),
    Mutation(
        "logs: a response that the server ends too early counts as the whole log",
        "magos/joblog",
        "while not self._settled:",
        "while not self._readings:",
        ("tests/unit/joblog",),
    ),
    Mutation(
        "logs: another pod of the same name is read",
        "magos/joblog",
        "if pod.metadata.uid != self._pod.metadata.uid:",
        "if False:",
        ("tests/unit/joblog",),
    ),
    Mutation(
        "logs: silence for hours counts as trouble",
        "magos/joblog",
        "self._failures = 0  # it is there",
        "pass  # it is there",
        ("tests/unit/joblog",),
    ),
    Mutation(
        "logs: how a log arrives shows in what is stored",
        "magos/history",
        "while len(self._raw) >= _BLOCK:",
        "while self._raw:",
        ("tests/unit/history/test_s3_logformat.py",),
    ),
    Mutation(
        "logs: a log that was cut ends within a line",
        "magos/history",
        "if end == 0 and self._within:",
        "if end == 0:",
        ("tests/unit/history/test_s3_logformat.py",),
    ),
    Mutation(
        "logs: an object from elsewhere is decompressed without end",
        "magos/history",
        "self.full = self._size > READ_LIMIT",
        "self.full = False",
        ("tests/unit/history/test_s3_logformat.py",),
    ),
    Mutation(
        "logs: an upload that failed is left in the bucket",
        "magos/history",
        "            await upload.abort()\n",
        "",
        ("tests/unit/history/test_s3_archive.py",),
    ),
    Mutation(
        "logs: what a crash left of an upload stays",
        "magos/history",
        "        await self._abort_leftovers(key)\n",
        "",
        ("tests/unit/history/test_s3_archive.py",),
    ),
    Mutation(
        "logs: uploads of other logs are aborted",
        "magos/history",
        'if upload["Key"] == key:',
        "if True:",
        ("tests/unit/history/test_s3_archive.py",),
    ),
    Mutation(
        "logs: a key shows where the settings of the bucket are printed",
        "magos/history",
        'def __repr__(self) -> str:\n        """Tell where, without a key',
        'def _other(self) -> str:\n        """Tell where, without a key',
        ("tests/unit/history/test_s3settings.py",),
    ),
    Mutation(
        "logs: a URL that may hold a key is repeated",
        "magos/history",
        "is not the URL of a server: set",
        "is {endpoint!r}: set",
        ("tests/unit/history/test_s3settings.py",),
    ),
    Mutation(
        "logs: what a server says in place of an error code is repeated",
        "magos/history",
        're.sub(r"[^A-Za-z0-9.]", "", str(code))[:60]',
        "str(code)",
        ("tests/unit/history/test_s3trouble.py",),
    ),
    Mutation(
        "server: a route does not ask who calls",
        "magos/server",
        "        if not operation.open:\n            known",
        "        if False:\n            known",
        (_API + "test_resources.py::test_a_request_without_a_credential_is_401_whatever_it_asks_for",),
    ),
    Mutation(
        "server: a route of the API is not in its document",
        "magos/server",
        "if isinstance(route, Route) and route.path.startswith(_DESCRIBED):",
        "if False:",
        (_API + "test_joined.py::test_no_route_of_the_api_can_be_beside_the_table",),
    ),
    Mutation(
        "server: the composition forgets how programs log in",
        "magos/apps",
        "        operations=auth.operations,\n",
        "",
        (_API + "test_joined.py", _API + "test_openapi.py::test_every_route_of_the_api_is_described"),
    ),
    Mutation(
        "server: a list shows every namespace",
        "magos/server",
        "if (visible is None or each.metadata.namespace in visible) and",
        "if",
        (_API + "test_resources.py::test_a_list_has_only_what_the_caller_may_list",),
    ),
    Mutation(
        "server: an object is shown without the right to get it",
        "magos/server",
        "        await call.context.access.require(call.caller, right)\n        item = hub.informer",
        "        item = hub.informer",
        (_API + "test_resources.py",),
    ),
    Mutation(
        "server: a grant for anything else is taken",
        "magos/server",
        "    if not (right.namespace and right.name) or right != wanted(right.namespace, right.name):",
        "    if False:",
        (_API + "test_actions.py",),
    ),
    Mutation(
        "server: a write that conflicts is not judged anew",
        "magos/server",
        "            if not error.conflict:\n                raise",
        "            raise",
        (_API + "test_actions.py",),
    ),
    Mutation(
        "server: a second approval replaces the name of the first",
        "magos/server",
        "        return found.metadata.annotations.get(APPROVED) == run_id",
        "        return False",
        (_API + "test_actions.py::test_two_equal_approvals_are_one_and_the_first_stays_on_record",),
    ),
    Mutation(
        "server: a stream shows what may not be seen",
        "magos/server",
        "if await sight.sees(each.namespace)]",
        "]",
        (_API + "test_events.py",),
    ),
    Mutation(
        "server: a stream does not look again at rights",
        "magos/server",
        "            if not await sight.look():\n                reason",
        "            if False:\n                reason",
        (_API + "test_events.py",),
    ),
    Mutation(
        "server: a stream outlives its credential",
        "magos/server",
        '    return "the credential has expired" if expired(call) else ""',
        '    return ""',
        (_API + "test_events.py::test_a_stream_ends_with_the_token_that_opened_it",),
    ),
    Mutation(
        "server: changes are lost in silence",
        "magos/server",
        "            self.lost = True\n",
        "            pass\n",
        (_API + "test_events.py::test_a_client_that_reads_too_slowly_is_told_that_it_missed_changes",),
    ),
    Mutation(
        "server: the end of an object before the snapshot is lost",
        "magos/server",
        "            ended, _ = self._early.get(key, (None, None))\n",
        "            ended = None\n            if change is ChangeType.DELETED:\n                return\n",
        (_API + "test_events.py",),
    ),
    Mutation(
        "server: a stream goes on while the server stops",
        "magos/server",
        '        return "the server stops"\n',
        '        return ""\n',
        (_API + "test_events.py",),
    ),
    Mutation(
        "server: a client that does not read holds its stream for ever",
        "magos/server",
        "                    with anyio.fail_after(STALL_SECONDS):\n                        await send",
        "                    if True:\n                        await send",
        (_API + "test_events.py::test_a_client_that_stops_reading_for_good_is_given_up",),
    ),
    Mutation(
        "server: a body may be of any size",
        "magos/server",
        "            if size > LARGEST_BODY:",
        "            if False:",
        (_API + "test_app.py",),
    ),
    Mutation(
        "server: a query is logged as it is",
        "magos/server",
        "{value if key in _SHOWN else '...'}",
        "{value}",
        (_API + "test_app.py::test_the_request_log_has_no_tokens_and_no_secrets_of_the_query",),
    ),
    Mutation(
        "server: an unexpected error is shown",
        "magos/server",
        'return Problem(500, "internal error: the log of the server says more")',
        "return Problem(500, str(error))",
        (_API + "test_app.py",),
    ),
    Mutation(
        "server: readiness does not notice an API server that is gone",
        "magos/server",
        '            return str(error)\n        return ""',
        '            return ""\n        return ""',
        (_API + "test_app.py",),
    ),
    Mutation(
        "server: any pod with the labels of a run is its pod",
        "magos/server",
        '    return owner is not None and (owner.kind, owner.name) == ("Job", job)',
        "    return True",
        (_API + "test_logs.py",),
    ),
    Mutation(
        "server: a live log goes on after another run has begun",
        "magos/server",
        "        if found.status.current_run_id != self._run_id:",
        "        if False:",
        (_API + "test_logs.py",),
    ),
    Mutation(
        "server: a live log does not look again at rights",
        "magos/server",
        "        await readable(self._call)\n        return True",
        "        return True",
        (_API + "test_logs.py",),
    ),
    Mutation(
        "server: a new Workspace shows the runs of an earlier one",
        "magos/server",
        '        of = uid or (workspace.metadata.uid if workspace is not None else "")',
        "        of = uid",
        (_API + "test_runs.py",),
    ),
    Mutation(
        "server: an earlier plan's summary passes for the current one",
        "magos/server",
        "    planned = run.has_changes is not None",
        "    planned = True",
        (_API + "test_runs.py",),
    ),
    Mutation(
        "server: a client may take its time for a request",
        "magos/server",
        "                self._deadline = self.loop.call_later(REQUEST_SECONDS, self._give_up)",
        "                pass",
        (_API + "test_listener.py",),
    ),
    Mutation(
        "server: pages of any origin may call",
        "magos/server",
        '    if text == "*":',
        '    if text == "*":\n        return text\n    if False:',
        (_API + "test_settings.py",),
    ),
    Mutation(
        "login: cookies of one person are sent for the next",
        "magos/server/auth",
        "return CookieJar(policy=DefaultCookiePolicy(allowed_domains=()))",
        "return CookieJar()",
        _DEX,
    ),
    Mutation(
        "access: a failed review grants",
        "magos/server/auth",
        "return answer.status.allowed and not answer.status.denied",
        "return True",
        _API_ACCESS,
    ),
    Mutation(
        "access: accounts of other namespaces count everywhere",
        "magos/server/auth",
        "places = dict.fromkeys((*self._everywhere, namespace) if namespace else self._everywhere)",
        "places = dict.fromkeys(self._by_namespace)",
        _API_ACCESS,
    ),
    Mutation(
        "access: a decision is kept for ever",
        "magos/server/auth",
        "self._clock.monotonic() - asked < KEPT:",
        "self._clock.monotonic() >= asked:",
        _API_ACCESS,
    ),
    Mutation(
        "mappings: one claim is enough",
        "magos/server/auth",
        "return bool(mapping) and all(not values",
        "return bool(mapping) and any(not values",
        _API_ACCESS,
    ),
    Mutation(
        "mappings: an empty mapping matches everybody",
        "magos/server/auth",
        "return bool(mapping) and all(",
        "return all(",
        _API_ACCESS,
    ),
    Mutation(
        "tokens: the audience is not looked at",
        "magos/server/auth",
        "not any(each in clients for each in audiences if isinstance(each, str))",
        "not audiences",
        _BEARERS,
    ),
    Mutation(
        "tokens: expiry is not looked at",
        "magos/server/auth",
        "if expiry is None or expiry <= moment:",
        "if expiry is None:",
        _BEARERS,
    ),
    Mutation(
        "tokens: the nonce is not looked at",
        "magos/server/auth",
        "if nonce is not None and not hmac",
        "if nonce is None and not hmac",
        _LOGINS,
    ),
    Mutation(
        "tokens: a disabled admin stays in",
        "magos/server/auth",
        """        if not self._settings.enabled:
            raise Unverified("the admin account is disabled")""",
        """        if not self._settings.signing_key:
            raise Unverified("the admin account is disabled")""",
        _BEARERS,
    ),
    Mutation(
        "sessions: a disabled admin stays in",
        "magos/server/auth",
        "            if not self._settings.admin.enabled:",
        "            if not self._settings.admin.signing_key:",
        _SESSIONS,
    ),
    Mutation(
        "csrf: any origin changes something",
        "magos/server/auth",
        "if len(origins) != 1 or origin_of(origins[0]) != self._origin:",
        "if len(origins) != 1:",
        _SESSIONS,
    ),
    Mutation(
        "csrf: the token of another session counts",
        "magos/server/auth",
        "if not same or not self._sessions.csrf_matches(session.id, given):",
        "if not same:",
        _SESSIONS,
    ),
    Mutation(
        "login: a state of nobody's browser counts",
        "magos/server/auth",
        'if not hmac.compare_digest(kept["state"].encode(), state.encode()) or kept',
        "if kept",
        _LOGINS,
    ),
    Mutation(
        "login: it leads to any host",
        "magos/server/auth",
        'if not text.startswith("/") or text.startswith("//") or len(text) > _LONGEST:',
        "if len(text) > _LONGEST:",
        _ORIGINS,
    ),
    Mutation(
        "login: a fifth failure starts no pause",
        "magos/server/auth",
        "if record.level or len(record.tried) >= FAILURES:",
        "if record.level:",
        _GUESSES,
    ),
    Mutation(
        "login: anybody says who the client is",
        "magos/server/auth",
        "while forwarded and _is_trusted(address, trusted):",
        "while forwarded:",
        _GUESSES,
    ),
    Mutation(
        "explain: a command holds what a status says, unquoted",
        "magos/explain",
        "return shlex.join(words)",
        'return " ".join(words)',
        (_EXPLAIN,),
    ),
    Mutation(
        "explain: trouble of the API server hides an approval",
        "magos/explain",
        "worse=frozenset({Attention.RUNNING, Attention.WAITING, Attention.SETTLED}),",
        "worse=frozenset(Attention),",
        (_EXPLAIN,),
    ),
    Mutation(
        "actions: to discard asks for a run where no plan waits",
        "magos",
        """        raise _not_gated(workspace, "there is nothing to discard")
""",
        "        pass\n",
        ("tests/unit/test_actions.py",),
    ),
    Mutation(
        "command line: what a person has read may have changed",
        "magos/cli",
        "if _judged(each) != _judged(shown):",
        "if _judged(each) is None:",
        (_ASKING,),
    ),
    Mutation(
        "command line: a plain yes acknowledges violations",
        "magos/cli",
        "allowed = (waiting.run_id,) if warned else",
        "allowed = (waiting.run_id, 'y') if warned else",
        (_ASKING,),
    ),
    Mutation(
        "command line: the end of an earlier spec ends a wait for a Rollout",
        "magos/cli",
        "seen = each.status.observed_generation == each.metadata.generation",
        "seen = True",
        ("tests/unit/cli/test_promotion.py",),
    ),
    Mutation(
        "command line: objects are printed as far as this version knows them",
        "magos/cli",
        "kind = raw(selected.kind) if exact else selected.kind",
        "kind = selected.kind",
        ("tests/unit/cli/test_get.py",),
    ),
    Mutation(
        "command line: a Project that may not be read is missing",
        "magos/cli",
        "return Project(metadata=ObjectMeta(name=name, namespace=namespace))",
        "return None",
        ("tests/unit/cli/test_explaining.py",),
    ),
    Mutation(
        "login: a token goes to whoever has the file of a server",
        "magos/cli",
        'return login.token if login.server == server else ""',
        "return login.token",
        (_CLI_LOGIN,),
    ),
    Mutation(
        "login: any redirect brings the code",
        "magos/cli",
        "if parts.path != self.path or not hmac.compare_digest(state.encode(), self._state.encode()):",
        "if parts.path != self.path:",
        (_CLI_LOGIN,),
    ),
    Mutation(
        "login: an identity provider speaks for another",
        "magos/cli",
        'if found.issuer.rstrip("/") != issuer.rstrip("/"):',
        "if not found.issuer:",
        (_CLI_LOGIN,),
    ),
    Mutation(
        "login: a redirect of the server is followed",
        "magos/cli",
        "            trust_env=False,\n            transport=transport,",
        "            trust_env=False,\n            follow_redirects=True,\n            transport=transport,",
        ("tests/unit/cli/test_api.py",),
    ),
    Mutation(
        "secrets: a long password is cut in silence",
        "magos/cli",
        "if len(raw) > _MOST_BYTES or",
        "raw = raw[:_MOST_BYTES]\n    if",
        ("tests/unit/cli/test_administration.py",),
    ),
    Mutation(
        "pages: the dialog approves whatever run waits",
        "magos/server/pages",
        'run_id = form.get("run_id", [""])[0]',
        "run_id = (await visit.found(WORKSPACES, visit.context.cluster.workspaces)).status.current_run_id",
        _PAGES,
    ),
    Mutation(
        "pages: what changes alone on a page of several kinds is not followed",
        "magos/server/pages",
        "projectRef=project), _one(plural, shown)))",
        "projectRef=project),))",
        _PAGES,
    ),
    Mutation(
        "pages: a stream is named to who may not watch it",
        "magos/server/pages",
        '    allowed = await _may_watch(visit, plural) and await _may_watch(visit, "workspaces")',
        "    allowed = await _may_watch(visit, plural)",
        _PAGES,
    ),
    Mutation(
        "pages: every page claims to be as new as its stream",
        "magos/server/pages",
        "return mark(each.metadata.resource_version for each in shown)",
        'return mark("" for each in shown)',
        _PAGES,
    ),
    Mutation(
        "pages: the log of the run before stands in the place of the present one",
        "magos/ui",
        'console=f"console-{status.phase}-{status.current_run_id}"',
        'console=f"console-{status.phase}"',
        _UI,
    ),
    Mutation(
        "pages: violations are taken as acknowledged",
        "magos/server/pages",
        'acknowledged = shown <= set(form.get("acknowledge", []))',
        "acknowledged = bool(shown)",
        _PAGES,
    ),
    Mutation(
        "pages: lists show what may not be listed",
        "magos/server/pages",
        "return tuple(each for each in items if each.metadata.namespace in visible)",
        "return items",
        _PAGES,
    ),
    Mutation(
        "pages: an object is shown to whoever knows its name",
        "magos/server/pages",
        """        await self.context.access.require(self.caller, right)
        item =""",
        """        item =""",
        _PAGES,
    ),
    Mutation(
        "pages: a dialog opens where its button is closed",
        "magos/ui",
        "return choices.dialog == dialog and not next(each.refused for each in actions if each.key == key)",
        "return choices.dialog == dialog",
        _PAGES,
    ),
    Mutation(
        "ui: changes are read out of every stage of a log",
        "magos/ui",
        "self._inside = stage is Stage.TERRAFORM",
        "self._inside = True",
        _UI,
    ),
    Mutation(
        "ui: a plan is shown with all its addresses",
        "magos/ui",
        "if len(self._kept) < MOST_ADDRESSES:",
        "if self._kept is not None:",
        _UI,
    ),
    Mutation(
        "ui: the lines of a plan are kept without a bound",
        "magos/ui",
        "min(len(line), LONGEST) + _MARKUP > room:",
        "room is None:",
        _UI,
    ),
    Mutation(
        "ui: headers that a configuration printed are not told",
        "magos/ui",
        "if told == (counts.destroy, counts.change, counts.add):",
        "if told:",
        _UI,
    ),
    Mutation("ui: what a cut log holds is shown as the plan", "magos/ui", "if read.cut:", "if False:", _UI),
    Mutation(
        "ui: destroys are folded away",
        "magos/ui",
        "open=change.action is Action.DESTROY,",
        "open=False,",
        _UI,
    ),
    Mutation(
        "pages: an archive that is down fails the page of a plan",
        "magos/server/pages",
        "except (ArchiveUnavailable, ApiError) as error:",
        "except ApiError as error:",
        _PAGES,
    ),
    Mutation(
        "pages: a log that is being written is taken for the plan",
        "magos/server/pages",
        'if run.run_id == workspace.status.current_run_id and live_log(workspace).endswith(f"phase={JobType.PLAN}"):',
        "if run is None:",
        _PAGES,
    ),
    Mutation("ui: texts are not escaped", "magos/ui", "autoescape=True", "autoescape=False", _UI),
    Mutation("ui: lines of logs are not escaped", "magos/ui", "shown = escape(", "shown = Markup(", _UI),
    Mutation(
        "history: a run ends without its record",
        "magos/reconcilers/workspace/handlers",
        "return recorded(seen, move, Ending(result=result_of(phase, reason), reason=str(reason), message=message))",
        "return move",
        (*_RECORDS, *_ARCHIVE),
    ),
    Mutation(
        "history: a discarded plan leaves no record",
        "magos/reconcilers/workspace/handlers",
        "return recorded(seen, move, ending or discarding(discarded), run=seen.run)",
        "return move",
        (*_RECORDS, *_ARCHIVE),
    ),
    Mutation(
        "history: a record leaves whatever was stored of its run",
        "magos/reconcilers/archive",
        "tuple(record for record in outbox if record not in stored)",
        "tuple(each for each in outbox if each.run_id not in {record.run_id for record in stored})",
        ("tests/unit/reconcilers/archive/test_outbox.py",),
    ),
    Mutation(
        "history: a deletion loses what is not stored",
        "magos/reconcilers/workspace/handlers",
        "Move(effects=(*_parcel(seen), release))",
        "Move(effects=(release,))",
        _RECORDS,
    ),
    Mutation(
        "history: the finalizer goes before what is not stored",
        "magos/reconcilers/workspace/handlers",
        "Move(effects=(*_parcel(seen), release))",
        "Move(effects=(release, *_parcel(seen)))",
        _RECORDS,
    ),
    Mutation(
        "history: a parcel goes before it is stored",
        "magos/reconcilers/archive",
        "if remaining(parcel.records, standing.stored):",
        "if False:",
        ("tests/unit/reconcilers/archive/test_parcels.py",),
    ),
    Mutation(
        "archive: a Job is released before it is archived",
        "magos/reconcilers/archive",
        "if task.due is not Due.NOTHING and archived is None:",
        "if False:",
        _RELEASES,
    ),
    Mutation(
        "archive: a Job is due although its Workspace needs it",
        "magos/reconcilers/archive",
        "return Due.BEGINNING if workspace is not None and _needs(workspace, job, job_type) else Due.ALL",
        "return Due.ALL",
        _RELEASES,
    ),
    Mutation(
        "archive: an apply is stopped",
        "magos/reconcilers/archive",
        "if deleting and (job_type is JobType.PLAN or workspace is None) else",
        "if deleting else",
        _RELEASES,
    ),
    Mutation(
        "archive: a deleted plan Job goes on",
        "magos/reconcilers/archive",
        "return Due.STOPPING if deleting and (job_type is JobType.PLAN or workspace is None) else Due.BEGINNING",
        "return Due.BEGINNING",
        _RELEASES,
    ),
    Mutation(
        "archive: Jobs that wait for it hold up a start",
        "magos/reconcilers/workspace/handlers/starting",
        "(_is_in_the_way(seen, job) or not awaits_archive(job, seen.pods))",
        "True",
        _WAITS,
    ),
    Mutation(
        "archive: a Job in the way of the next one is overlooked",
        "magos/reconcilers/workspace/handlers/starting",
        "(_is_in_the_way(seen, job) or not awaits_archive(job, seen.pods))",
        "not awaits_archive(job, seen.pods)",
        _WAITS,
    ),
    Mutation(
        "archive: Jobs that wait for it hold up a deletion",
        "magos/reconcilers/workspace/handlers",
        "if not job.ended and not awaits_archive(job, seen.pods)]",
        "if not job.ended]",
        _WAITS,
    ),
    Mutation(
        "archive: a Job is out of the way while its pod works",
        "magos/reconcilers/workspace/evidence",
        "and all(pod.ended for pod in pods if is_of(pod, job))",
        "and True",
        _WAITS,
    ),
    Mutation(
        "archive: a namespace that is being deleted waits for ever",
        "magos/adapters/archivist",
        "            if terminating:",
        "            if False:",
        _DELIVERY,
    ),
    Mutation(
        "archive: a log that can be read is given up",
        "magos/adapters/archivist",
        "return None if any(map(pod_started, pods)) else",
        "return",
        _DELIVERY,
    ),
    Mutation(
        "archive: a namespace that stays is not waited for",
        "magos/adapters/archivist",
        "            if terminating:",
        "            if True:",
        _DELIVERY,
    ),
    Mutation(
        "archive: what failed is not tried again",
        "magos/adapters/archivist",
        "self._schedule(key, entry, now + pause)",
        "pass",
        ("tests/unit/adapters/archivist/test_ledger.py",),
    ),
    Mutation(
        "archive: status tells of every try",
        "magos/adapters/archivist",
        "if told is None or told.count != len(late):",
        "if True:",
        ("tests/unit/adapters/archivist/test_ledger.py",),
    ),
    Mutation(
        "questions: an answer is lost to the next question",
        "magos/reconcilers/workspace",
        "queries=_with_what_is_known(seen, move.probes),",
        "queries=move.probes,",
        _QUESTIONS,
    ),
    Mutation(
        "questions: a refusal is forgotten while caches lag",
        "magos/reconcilers/workspace",
        "if seen.stale and seen.denial is None:",
        "if seen.stale:",
        _QUESTIONS,
    ),
    Mutation(
        "questions: a pass that is shown a refusal asks whether a cause holds",
        "magos/reconcilers/workspace",
        "return seen.refusal is not None and unconfirmed(seen, trigger)",
        "return False",
        _QUESTIONS,
    ),
    Mutation(
        "questions: a result that cannot be saved is asked about instead of told",
        "magos/reconcilers/workspace",
        "if not told.probes:",
        "if True:",
        _QUESTIONS,
    ),
    Mutation(
        "questions: a forced deletion waits for a parcel that is refused",
        "magos/reconcilers/workspace",
        "if not (seen.live or _judged_live(seen)):",
        "if not seen.live:",
        _QUESTIONS,
    ),
    Mutation(
        "questions: a Project that is deleted asks on while caches lag",
        "magos/reconcilers",
        "if seen.stale and seen.rollout_live is not None and status is None:",
        "if False:",
        ("tests/unit/reconcilers/test_project.py",),
    ),
    Mutation(
        "login: own authorities take the place of the usual ones",
        "magos/cli",
        "trust(server.authorities(here), beside_usual=True)",
        "trust(server.authorities(here))",
        (_CLI_LOGIN,),
    ),
    Mutation(
        "tokens: that of a ServiceAccount never ends",
        "magos/server/auth",
        "expires_at=end_of(token, self._clock.now()),",
        "expires_at=None,",
        _BEARERS,
    ),
    Mutation(
        "logs: newer lines are lost where the node dropped those before",
        "magos/joblog",
        "return self._recognised or at > self._newest",
        "return self._recognised",
        ("tests/unit/joblog",),
    ),
)


@dataclass(frozen=True)
class Verdict:
    """What became of one mutation: the test that noticed it, or why that is not good enough."""

    killer: str = ""
    problem: str = ""

    def __str__(self) -> str:
        return f"noticed by {self.killer}" if self.killer else self.problem


def main(words: list[str]) -> int:
    """Try the mutations; return 1 if one survives or does not apply, 2 if no name contains one of the words."""
    chosen = [each for each in MUTATIONS if not words or any(word in each.name for word in words)]
    if not chosen:
        print(f"scripts/mutations: no mutation has {' or '.join(words)} in its name", file=sys.stderr)
        return 2
    began = time.perf_counter()
    missed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        _copy_to(tree)
        for number, mutation in enumerate(chosen, 1):
            start = time.perf_counter()
            verdict = _try(mutation, tree)
            if not verdict.killer:
                missed.append(f"{mutation.name}: {verdict}")
            print(f"{number}/{len(chosen)} {mutation.name}", flush=True)
            print(f"    {time.perf_counter() - start:.1f} s, {verdict}", flush=True)
    seconds = time.perf_counter() - began
    print(f"mutations: {len(chosen) - len(missed)} of {len(chosen)} are noticed, in {seconds:.0f} s")
    for line in missed:
        print(f"mutations: NOT NOTICED {line}")
    return 1 if missed else 0


def _copy_to(tree: Path) -> None:
    for name in _COPIED:
        source = _ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, tree / name)


def _try(mutation: Mutation, tree: Path) -> Verdict:
    places = [path for path in sorted((tree / mutation.where).rglob("*.py")) if mutation.old in path.read_text("utf-8")]
    if len(places) != 1 or places[0].read_text("utf-8").count(mutation.old) != 1:
        return Verdict(problem="does not apply: its text is not there exactly once; the list is stale")
    good = places[0].read_text("utf-8")
    places[0].write_text(good.replace(mutation.old, mutation.new), "utf-8")
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutation.tests]
    try:
        run = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, check=False)
    finally:
        places[0].write_text(good, "utf-8")
    failed = [line for line in run.stdout.splitlines() if line.startswith("FAILED tests/")]
    if run.returncode == 1 and failed:
        return Verdict(killer=failed[0].removeprefix("FAILED ").partition(" - ")[0])
    if run.returncode == 0:
        return Verdict(problem="SURVIVES: no test fails")
    return Verdict(problem=f"BROKEN: the tests end with {run.returncode}: {run.stdout[-500:]}{run.stderr[-500:]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
