"""Runs one stage: configuration, execution, clean-up, report, exit code (spec §5.4, §7.6).

``fetch``, ``terraform`` and ``render`` end with 0 also on failure and leave a status, so that ``job`` runs and reports;
``job`` ends with the exit code of the first failed stage. A stage that was asked to stop ends with 143.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from magos.api import runnerpod
from magos.api.names import JobType
from magos.api.reasons import Reason
from magos.api.result import Outcome, Result
from magos.api.runnerpod import TERMINATED, Stage
from magos.errors import MagosError
from magos.ids import parse_run_id
from magos.masking.message import cleared, compose
from magos.runner.config import (
    RunConfig,
    environment,
    fetch_forms,
    load_fetch,
    load_job,
    load_render,
    load_terraform,
    terraform_forms,
    token_paths,
)
from magos.runner.context import Context
from magos.runner.journal import Journal
from magos.runner.outcome import StageFailed, phase_failed
from magos.runner.paths import Paths
from magos.runner.process import Supervisor
from magos.runner.report import write_termination_message
from magos.runner.shield import shield_self
from magos.runner.space import explained
from magos.runner.status import StageStatus, first_failure, leave_status, read_status
from magos.runner.termination import Terminated, Termination

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
        journal = Journal(echoes=stage is Stage.FETCH)
        with journal.as_stderr():
            return _run_behind_door(stage, place, termination, journal)
    except Terminated:  # before the stage began, or while it was cleaning up
        return TERMINATED
    finally:
        termination.conclude()


def _run_behind_door(stage: Stage, paths: Paths, termination: Termination, journal: Journal) -> int:
    """Run the stage; an unexpected exception ends it with 1, with a masked traceback in the log."""
    try:
        if stage is Stage.JOB:
            return _run_job(paths, environment(), termination, journal)
        return _run_init(stage, paths, environment(), termination, journal)
    except Exception as error:  # noqa: BLE001 - else the interpreter prints it, past the one masking door
        _say_traceback(error, journal)
        return 1


def _run_init(stage: Stage, paths: Paths, env: Environment, termination: Termination, journal: Journal) -> int:
    status = StageStatus(stage=stage)
    execution: _Execution | None = None
    supervisor = Supervisor(journal, termination)
    phase = _phase(env)
    code = 0
    try:
        run, create = _prepare(stage, paths, env, journal)
        journal.say(_beginning(stage, run))
        earlier = first_failure(tuple(read_status(paths, before, run.phase) for before in stage.before(run.phase)))
        if earlier is not None:
            reason = cleared(str(earlier.reason))
            journal.say(
                compose("nothing to do: stage {stage} failed ({reason})", stage=cleared(earlier.stage), reason=reason)
            )
            return 0
        execution = create(Context(paths, journal, supervisor))
        execution.execute()
    except Terminated:
        status = _interrupted(stage)
    except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, job must be able to report it
        cause = explained(paths, stage, env.get(runnerpod.WORKSPACE, ""), error)
        status = _failed_status(stage, phase, cause, journal)
    finally:
        supervisor.end_all()
    if status.reason is not None and termination.requested_at is not None:
        status = _interrupted(stage)  # the error may be what the interruption left of a library's state
        code = TERMINATED
    if execution is not None:
        status = _with_findings(status, execution.status)
    status = _masked_status(status, journal)
    _say_end(journal, status)
    leave_status(paths, status, phase)
    return code


def _prepare(
    stage: Stage, paths: Paths, env: Environment, journal: Journal
) -> tuple[RunConfig, Callable[[Context], _Execution]]:
    """Return the run and how to make the execution; each stage's code is loaded only by itself.

    The journal learns the stage's secrets first, so it masks them also if the environment is refused.
    """
    if stage is Stage.FETCH:
        from magos.runner.fetch import Fetch

        journal.mask_too(fetch_forms(env))
        fetch = load_fetch(env)
        return fetch.run, lambda context: Fetch(fetch, context)
    if stage is Stage.TERRAFORM:
        from magos.runner.terraform import Terraform
        from magos.runner.tokens import TokenFiles

        others = [paths.inside(path) for path in token_paths(env)]
        journal.watch(TokenFiles(paths.mounted_secrets, others).fresh_forms)
        journal.mask_too(terraform_forms(env))
        terraform = load_terraform(env)
        return terraform.run, lambda context: Terraform(terraform, context)
    from magos.runner.render import Render

    render = load_render(env)
    return render.run, lambda context: Render(render, context)


def _run_job(paths: Paths, env: Environment, termination: Termination, journal: Journal) -> int:
    from magos.runner.job import evaluate, failed

    result = _unknown_result(env)
    try:
        config = load_job(env)
        run = config.run
        journal.say(_beginning(Stage.JOB, run))
        result = evaluate(config, Context(paths, journal, Supervisor(journal, termination)))
    except Terminated:
        result = _stopped(result)
    except Exception as error:  # noqa: BLE001 - the boundary: every run ends with a result
        cause = explained(paths, Stage.JOB, env.get(runnerpod.WORKSPACE, ""), error)
        status = _failed_status(Stage.JOB, _phase(env), cause, journal)
        result = failed(result, status.reason or phase_failed(_phase(env)), status.message)
        if termination.requested_at is not None:
            result = _stopped(result)  # the error may be what the interruption left of a library's state
    result = _masked_result(result, journal)
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


def _failed_status(stage: Stage, phase: JobType, error: Exception, journal: Journal) -> StageStatus:
    if isinstance(error, StageFailed):
        return _failure(stage, error.reason, error.message)
    if not isinstance(error, MagosError | OSError):
        _say_traceback(error, journal)
    cause = str(error) or cleared(type(error).__name__)
    return _failure(stage, phase_failed(phase), compose("{stage} failed: {cause}", stage=cleared(stage), cause=cause))


def _say_traceback(error: Exception, journal: Journal) -> None:
    import traceback

    journal.say("".join(traceback.format_exception(error)).rstrip())


def _masked_status(status: StageStatus, journal: Journal) -> StageStatus:
    return msgspec.structs.replace(
        status,
        message=journal.masked(status.message),
        warnings=tuple(journal.masked(warning) for warning in status.warnings),
        exposure=journal.masked(status.exposure),
    )


def _masked_result(result: Result, journal: Journal) -> Result:
    """Return what may be shown; policies are named by those who wrote them, all else is checked where it is read."""
    return msgspec.structs.replace(
        result,
        message=journal.masked(result.message),
        warnings=tuple(journal.masked(warning) for warning in result.warnings),
        violations=tuple(
            msgspec.structs.replace(violation, message=journal.masked(violation.message))
            for violation in result.violations
        ),
    )


def _beginning(stage: Stage, run: RunConfig) -> str:
    return compose(
        "{stage}: {phase} of run {run}, Workspace {namespace}/{name}",
        stage=cleared(stage),
        phase=cleared(run.phase),
        run=cleared(run.run_id),
        namespace=cleared(run.namespace),
        name=cleared(run.workspace),
    )


def _with_findings(status: StageStatus, found: StageStatus) -> StageStatus:
    return msgspec.structs.replace(found, stage=status.stage, reason=status.reason, message=status.message)


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
    """``status`` is masked."""
    if status.reason is None:
        journal.say(cleared(f"{status.stage} done"))
    else:
        journal.say(cleared(f"{status.stage} failed: {status.reason}: {status.message}"))


def _say_result(journal: Journal, result: Result) -> None:
    """``result`` is masked."""
    if result.result is Outcome.FAILED:
        said = f"{result.phase} failed: {result.reason}: {result.message}"
    elif result.phase is JobType.APPLY:
        said = f"apply succeeded at {result.revision}"
    else:
        changes = result.changes
        summary = f"{changes.add} to add, {changes.change} to change, {changes.destroy} to destroy"
        said = f"plan succeeded at {result.revision}: {summary if result.has_changes else 'no changes'}"
    journal.say(cleared(said))
    for warning in result.warnings:
        journal.say(cleared(f"warning: {warning}"))
