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
_ENDS = ("tests/unit/reconcilers/test_ends.py",)
_VARIABLES = ("tests/unit/reconcilers/test_workspace_variables.py",)
_POLICIES = ("tests/unit/reconcilers/test_workspace_policies.py",)
_STAGES = "tests/e2e/runner/test_runner_stages.py"
_MASKING = ("tests/unit/runner/test_redact_wrapped.py", "tests/unit/runner/test_redact_parts.py")
_REFWATCHER_DOOR = ("tests/unit/apps/test_refwatcher_door.py",)
_ROLLOUT = ("tests/unit/reconcilers/test_rollout.py", "tests/unit/reconcilers/test_rollout_laws.py")


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
        "permission: anything but absence allows",
        "magos/api",
        "return annotations.get(EXECUTION_ALLOWED) == TRUE",
        "return EXECUTION_ALLOWED in annotations",
    ),
    Mutation(
        "permission: survives another commit",
        "magos/reconcilers/workspace",
        "if trigger in (Trigger.CONFIGURATION, Trigger.REVISION) and execution_allowed(",
        "if trigger in () and execution_allowed(",
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
        "early = remove_annotations(seen, APPROVED, APPROVED_BY)",
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
        "policies: Deny and Warn do not block",
        "magos/reconcilers/workspace",
        "_BLOCKING = frozenset({Action.DENY, Action.WARN})",
        "_BLOCKING: frozenset[Action] = frozenset()",
    ),
    Mutation(
        "digest: the apply is not told which plan",
        "magos/reconcilers/workspace",
        '("MAGOS_PLAN_DIGEST", plan.plan_digest),',
        '("MAGOS_PLAN_DIGEST", ""),',
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
        "evidence: a stranger's pod speaks for a run",
        "magos/reconcilers/workspace",
        "own = (pod for pod in found if _is_of_job(pod, name, job))",
        "own = found",
        ("tests/unit/reconcilers/test_foreign_pods.py",),
    ),
    Mutation(
        "permission: survives a crash between reset and the end of a Job",
        "magos/reconcilers/workspace",
        "if stale and not earlier:",
        "if stale and not earlier and seen.phase is not Phase.PLANNING:",
        ("tests/unit/reconcilers/test_triggers.py",),
    ),
    Mutation(
        "status: the end of a run speaks about a spec that was edited meanwhile",
        "magos/reconcilers/workspace",
        "    return status.observed_generation\n\n\ndef _annotation_events",
        "    return newest\n\n\ndef _annotation_events",
        _ENDS,
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
        "digest: a status without one lets an apply start",
        "magos/reconcilers/workspace",
        "if not (seen.run.plan_digest and seen.run.revision):",
        "if False:",
        ("tests/unit/reconcilers/test_start.py",),
    ),
    Mutation(
        "digest: the runner applies whatever plan file is there",
        "magos/runner",
        "        if digest != run.plan_digest:\n",
        "        if not digest:\n",
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
        "magos/runner",
        "os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW",
        "os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW",
        ("tests/unit/runner/test_runner_parts.py",),
    ),
    Mutation(
        "promotion: another commit is good enough",
        "magos/reconcilers/rollout",
        "if not revision or applied_revision(each) != revision)",
        "if applied_revision(each) is None)",
    ),
    Mutation(
        "promotion: a failed step stops nobody",
        "magos/reconcilers/rollout",
        "        return Standing.FAILED",
        "        return Standing.SETTLED",
    ),
    Mutation(
        "promotion: a working step holds nobody up",
        "magos/reconcilers/rollout",
        "    return Standing.SETTLED if gated(member) else Standing.DRIFT",
        "    return Standing.DRIFT",
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
        "    if seen.live or not (verdict.grants or verdict.revocations):\n",
        "    if verdict:\n",
        _ROLLOUT,
    ),
    Mutation(
        "promotion: a commit that is only announced counts as recorded",
        "magos/reconcilers/rollout",
        "and _recorded_revision(member) != pending:",
        "and not pending:",
        ("tests/unit/reconcilers/test_promotion_race.py", *_ROLLOUT),
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
        "precondition: what was judged may have changed",
        "magos/runtime",
        "        if live.metadata.resource_version != expected:\n",
        "        if not expected:\n",
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
        "        if standing is Standing.PARKED:\n            return False\n",
        "",
        ("tests/sim/test_controller.py",),
    ),
    Mutation(
        "masking: a secret that a formatter wrapped is not recognised",
        "magos/runner",
        "self._spans += self._unwrapper.read(self._held, end, final=final)",
        "self._unwrapper.read(self._held, end, final=final)",
        _MASKING,
    ),
    Mutation(
        "masking: a line is passed on although a secret may go on in the next",
        "magos/runner",
        "return self._release(min(end, self._unwrapper.settled()))",
        "return self._release(end)",
        _MASKING,
    ),
    Mutation(
        "masking: the gutter of the tool separates nothing",
        "magos/runner",
        "self._at_line_start = stop, newline >= 0",
        "self._at_line_start = stop, False",
        _MASKING,
    ),
    Mutation(
        "masking: only heads of long forms are compared",
        "magos/runner",
        'return form if text.startswith(form, start) else b""',
        "return form",
        _MASKING,
    ),
    Mutation(
        "masking: a weak password in a structured secret counts as a plain word",
        "magos/runner",
        "and bool(_PLAIN.fullmatch(text)) and not _CALLED_SECRET.search(name)",
        "and bool(_PLAIN.fullmatch(text))",
        _MASKING,
    ),
    Mutation(
        "masking: plain words in a structured secret mask advice",
        "magos/runner",
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
        "magos/apps",
        "return Failure(error.reason, _masked(error.message, credentials))",
        "return Failure(error.reason, error.message)",
        _REFWATCHER_DOOR,
    ),
    Mutation(
        "masking: an echo is recognised only in one piece",
        "magos/runner",
        "spans.append((places[start], places[stop - 1] + 1))",
        "continue",
        _REFWATCHER_DOOR,
    ),
    Mutation(
        "masking: the traceback of a poll shows the credentials",
        "magos/apps",
        "raise ListingCrashed(_masked(told, request.credentials)) from None",
        "raise ListingCrashed(told) from None",
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
        ("tests/unit/reconcilers/test_jobs.py",),
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
        "magos/runner",
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
