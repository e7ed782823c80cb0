"""Stage ``job``: our code only. Reads what the stages before it left and reports (spec §7.1, §7.5).

Believes the statuses of ``fetch`` and ``render``, which configuration code cannot rewrite; what it could have written
decides nothing but the fate of its own run. The plan file itself is not looked at again: its digest is that of the
bytes which ``render`` showed. Fails closed where there are policies that it cannot evaluate (I6).
"""

import msgspec

from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.result import Outcome, PolicyCount, Result, ViolationAction
from magos.api.runnerpod import Stage, exit_code
from magos.ids import parse_digest
from magos.masking.secretforms import secret_forms
from magos.runner.config import JobConfig, RunConfig
from magos.runner.context import Context
from magos.runner.files import read_limited
from magos.runner.outcome import StageFailed
from magos.runner.planjson import read_plan_json
from magos.runner.policies import evaluate_policies, violations_message
from magos.runner.policyfiles import mounted_policies
from magos.runner.policyreport import Verdict
from magos.runner.sensitive import secret_values
from magos.runner.space import explained
from magos.runner.status import StageStatus, first_failure, read_status

_LARGEST_PLAN_JSON = 2 * 1024**3
_UNPROVEN = (
    "a provider could have changed the plan while it was rendered ({exposure}); use nodes whose container file system"
    " keeps file modes and whose kernel has fs.suid_dumpable=0"
)


def evaluate(config: JobConfig, context: Context) -> Result:
    """Return the result of the phase."""
    run = config.run
    stages = Stage.JOB.before(run.phase)
    statuses = tuple(read_status(context.paths, stage, run.phase) for stage in stages)
    fetched = statuses[0]
    result = Result(
        run_id=run.run_id,
        phase=run.phase,
        result=Outcome.SUCCEEDED,
        exit_code=0,
        revision=fetched.revision,
        plan_digest=run.plan_digest or "",
        terraform_version=fetched.tool_version,
        distribution=run.distribution,
        warnings=fetched.warnings,
    )
    failure = first_failure(statuses)
    if failure is not None and failure.reason is not None:
        return failed(result, failure.reason, failure.message)
    if run.phase is JobType.APPLY:
        return result
    try:
        return _planned(config, context, result, statuses[-1])
    except StageFailed as error:
        return _failed_by(error, result, context, run)


def _failed_by(error: StageFailed, result: Result, context: Context, run: RunConfig) -> Result:
    cause = explained(context.paths, Stage.JOB, run.workspace, error)
    reason, message = (cause.reason, cause.message) if isinstance(cause, StageFailed) else (error.reason, error.message)
    return failed(result, reason, message)


def failed(result: Result, reason: Reason, message: str) -> Result:
    """Return ``result`` as a failure."""
    return msgspec.structs.replace(
        result, result=Outcome.FAILED, exit_code=exit_code(reason), reason=reason, message=message
    )


def _planned(config: JobConfig, context: Context, result: Result, rendered: StageStatus) -> Result:
    paths, exposure = context.paths, rendered.exposure
    try:
        plan = read_limited(paths.plan_json, _LARGEST_PLAN_JSON)
        context.journal.mask_too(secret_forms(secret_values(plan, config.secret_variables)))
        content = read_plan_json(plan)
        digest = parse_digest(rendered.plan_digest)
    except (OSError, ValueError) as error:
        raise StageFailed(
            Reason.PLAN_FAILED,
            f"the plan cannot be read back: {error}; check the {config.run.distribution} version and who writes to the"
            " pod's volumes",
        ) from error
    result = msgspec.structs.replace(
        result, plan_digest=digest, has_changes=content.has_changes, changes=content.changes
    )
    policies = mounted_policies(paths.policies, config.policies_digest)
    if config.policy_selector is not None:
        selector = config.policy_selector or "(all policies)"
        context.journal.say(f"policies selected by {selector}: {len(policies)}")
    if not policies:
        warnings = (*result.warnings, _UNPROVEN.format(exposure=exposure)) if exposure else result.warnings
        return msgspec.structs.replace(result, warnings=warnings)
    result = msgspec.structs.replace(result, policies=PolicyCount(selected=len(policies)))
    try:
        _require_proof(rendered)
        return _judged(result, evaluate_policies(policies, plan, config.run, context))
    except StageFailed as error:
        return _failed_by(error, result, context, config.run)


def _require_proof(rendered: StageStatus) -> None:
    """Refuse to judge a text that need not say what an apply of the plan would do."""
    if rendered.exposure:
        raise StageFailed(
            Reason.POLICY_EVALUATION_FAILED, f"policies prove nothing: {_UNPROVEN}".format(exposure=rendered.exposure)
        )
    if not rendered.plain_plan:
        raise StageFailed(
            Reason.POLICY_EVALUATION_FAILED,
            "policies prove nothing: the plan file is encrypted or kept on a server, so what is shown of it need not be"
            " what is applied; leave the plan unencrypted (the state need not be), or select no policies",
        )


def _judged(result: Result, verdict: Verdict) -> Result:
    violations = verdict.violations
    result = msgspec.structs.replace(
        result,
        policies=msgspec.structs.replace(result.policies, evaluated=verdict.evaluated),
        violations=violations,
        violations_total=len(violations),
        warnings=(*result.warnings, *verdict.warnings),
    )
    if all(violation.action is ViolationAction.AUDIT for violation in violations):
        return result
    return failed(result, Reason.POLICY_VIOLATION, violations_message(violations))
