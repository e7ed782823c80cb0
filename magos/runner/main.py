"""Runs one stage: configuration, execution, clean-up, report, exit code (spec §5.4, §7.6).

``fetch``, ``terraform`` and ``render`` end with 0 also on failure and leave a status, so that ``job`` runs and reports;
``job`` ends with the exit code of the first failed stage. A stage that was asked to stop ends with 143.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.result import Outcome, Result
from magos.errors import MagosError
from magos.ids import parse_run_id
from magos.runner.config import RunConfig, environment, load_fetch, load_job, load_render, load_terraform
from magos.runner.context import Context
from magos.runner.journal import Journal
from magos.runner.outcome import TERMINATED, StageFailed, phase_failed
from magos.runner.paths import Paths
from magos.runner.process import Supervisor
from magos.runner.report import write_termination_message
from magos.runner.shield import shield_self
from magos.runner.status import Stage, StageStatus, first_failure, read_status, write_status
from magos.runner.termination import Terminated, Termination

__all__ = ["run_stage"]

Environment = Mapping[str, str]


class _Execution(Protocol):
    status: StageStatus

    def execute(self) -> None: ...


def run_stage(arguments: Sequence[str], paths: Paths | None = None) -> int:
    """Run the stage named by ``arguments`` with this process's environment; return the exit code.

    Takes over the signals of the process, adopts orphans, ends every process below it and closes itself to all others
    of its user: the process must be this stage's own. ``paths`` places the container's folders elsewhere than at ``/``.
    """
    try:
        (name,) = arguments
        stage = Stage(name)
    except ValueError:
        sys.stderr.write(f"usage: magos-job {'|'.join(Stage)}\n")
        return 2
    termination = Termination()
    place = Paths() if paths is None else paths
    try:
        termination.install()
        shield_self()
        if stage is Stage.JOB:
            return _run_job(place, environment(), termination)
        return _run_init(stage, place, environment(), termination)
    except Terminated:  # before the stage began, or while it was cleaning up
        return TERMINATED
    finally:
        termination.conclude()


def _run_init(stage: Stage, paths: Paths, env: Environment, termination: Termination) -> int:
    journal = Journal()
    status = StageStatus(stage=stage)
    execution: _Execution | None = None
    supervisor = Supervisor(journal, termination)
    phase = _phase(env)
    code = 0
    try:
        run, forms, create = _prepare(stage, env)
        journal = Journal(forms)
        supervisor = Supervisor(journal, termination)
        journal.say(f"{stage}: {run.phase} of run {run.run_id}, Workspace {run.namespace}/{run.workspace}")
        earlier = first_failure(tuple(read_status(paths, before, run.phase) for before in stage.before(run.phase)))
        if earlier is not None:
            journal.say(f"nothing to do: stage {earlier.stage} failed ({earlier.reason})")
            return 0
        execution = create(Context(paths, journal, supervisor))
        execution.execute()
    except StageFailed as error:
        status = _failure(stage, error.reason, journal.masked(error.message))
    except Terminated:
        status = _interrupted(stage)
    except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, job must be able to report it
        status = _unexpected(stage, phase, error, journal)
    finally:
        supervisor.end_all()
    if status.reason is not None and termination.requested_at is not None:
        status = _interrupted(stage)  # the error may be what the interruption left of a library's state
        code = TERMINATED
    if execution is not None:
        status = _with_findings(status, execution.status)
    _say_end(journal, status)
    write_status(paths, status)
    return code


def _prepare(stage: Stage, env: Environment) -> tuple[RunConfig, tuple[bytes, ...], Callable[[Context], _Execution]]:
    """Return the run, what to redact, and how to make the execution; each stage's code is loaded only by itself."""
    if stage is Stage.FETCH:
        from magos.runner.fetch import Fetch

        fetch = load_fetch(env)
        return fetch.run, fetch.secret_forms, lambda context: Fetch(fetch, context)
    if stage is Stage.TERRAFORM:
        from magos.runner.terraform import Terraform

        terraform = load_terraform(env)
        return terraform.run, terraform.secret_forms, lambda context: Terraform(terraform, context)
    from magos.runner.render import Render

    render = load_render(env)
    return render.run, (), lambda context: Render(render, context)


def _run_job(paths: Paths, env: Environment, termination: Termination) -> int:
    journal = Journal()
    from magos.runner.job import evaluate, failed

    result = _unknown_result(env)
    try:
        config = load_job(env)
        run = config.run
        journal.say(f"job: {run.phase} of run {run.run_id}, Workspace {run.namespace}/{run.workspace}")
        result = evaluate(config, Context(paths, journal, Supervisor(journal, termination)))
    except StageFailed as error:
        result = failed(result, error.reason, error.message)
    except Terminated:
        result = _stopped(result)
    except Exception as error:  # noqa: BLE001 - the boundary: a run without a result helps nobody
        status = _unexpected(Stage.JOB, _phase(env), error, journal)
        result = failed(result, phase_failed(_phase(env)), status.message)
        if termination.requested_at is not None:
            result = _stopped(result)  # the error may be what the interruption left of a library's state
    _say_result(journal, result)
    write_termination_message(paths.termination_log, result)
    return result.exit_code


def _interrupted(stage: Stage) -> StageStatus:
    return _failure(stage, Reason.INTERRUPTED, f"the {stage} stage was asked to stop (SIGTERM)")


def _stopped(result: Result) -> Result:
    from magos.runner.job import failed

    return failed(result, Reason.INTERRUPTED, "the job stage was asked to stop (SIGTERM)")


def _failure(stage: Stage, reason: Reason, message: str) -> StageStatus:
    return StageStatus(stage=stage, reason=reason, message=message)


def _unexpected(stage: Stage, phase: JobType, error: Exception, journal: Journal) -> StageStatus:
    if not isinstance(error, MagosError | OSError):
        import traceback

        journal.say("".join(traceback.format_exception(error)).rstrip())
    message = f"{stage} failed: {str(error) or type(error).__name__}"
    return _failure(stage, phase_failed(phase), journal.masked(message))


def _with_findings(status: StageStatus, found: StageStatus) -> StageStatus:
    return replace(found, stage=status.stage, reason=status.reason, message=status.message)


def _phase(env: Environment) -> JobType:
    return JobType.APPLY if env.get("MAGOS_JOB_TYPE") == JobType.APPLY else JobType.PLAN


def _unknown_result(env: Environment) -> Result:
    """Return what is known of the run before the environment was checked."""
    run_id = env.get("MAGOS_RUN_ID", "")
    try:
        parse_run_id(run_id)
    except ValueError:
        run_id = ""
    return Result(run_id=run_id, phase=_phase(env), result=Outcome.SUCCEEDED, exit_code=0)


def _say_end(journal: Journal, status: StageStatus) -> None:
    if status.reason is None:
        journal.say(f"{status.stage} done")
    else:
        journal.say(f"{status.stage} failed: {status.reason}: {status.message}")


def _say_result(journal: Journal, result: Result) -> None:
    if result.result is Outcome.FAILED:
        journal.say(f"{result.phase} failed: {result.reason}: {result.message}")
    elif result.phase is JobType.APPLY:
        journal.say(f"apply succeeded at {result.revision}")
    else:
        changes = result.changes
        summary = f"{changes.add} to add, {changes.change} to change, {changes.destroy} to destroy"
        journal.say(f"plan succeeded at {result.revision}: {summary if result.has_changes else 'no changes'}")
    for warning in result.warnings:
        journal.say(f"warning: {warning}")
