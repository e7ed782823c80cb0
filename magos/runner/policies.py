"""Evaluates the policies of a plan with the Kyverno command line (spec §7.4).

Nothing lets a plan pass but a complete report about every selected policy (invariant I6): whatever goes wrong raises
``StageFailed`` with ``PolicyEvaluationFailed``. The plan's JSON is handed on by its path, whole and unchanged, and is
never printed; values it marks as sensitive are masked in everything that policies say (field case F76).
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from magos.api.reasons import Reason
from magos.api.result import Violation, ViolationAction
from magos.api.validatingpolicy import ValidatingPolicy, policy_file, policy_text
from magos.masking.message import cleared, compose, shorten
from magos.masking.secretforms import secret_forms
from magos.privatefile import write_private
from magos.runner.config import RunConfig
from magos.runner.context import Context
from magos.runner.files import read_limited, remove
from magos.runner.outcome import StageFailed
from magos.runner.policyreport import PolicyResult, Verdict, judge, read_report
from magos.runner.process import Command, Finished
from magos.runner.sensitive import sensitive_values
from magos.runner.space import tool_met_full

LIMIT_SECONDS: Final = 300.0
"""How long the evaluation may take."""

_PROGRAM: Final = "kyverno"
_ERROR: Final = "Error: "
_STOP_TIMEOUT: Final = 3.0
_LARGEST_REPORT: Final = 256 * 1024**2
_LONGEST_LIST: Final = 440
_PASSED_ON: Final = frozenset({"path", "lang", "tz", "ssl_cert_file", "ssl_cert_dir"}) | {
    f"{scheme}_proxy" for scheme in ("http", "https", "no")
}
"""Names, in lower case, of what the evaluator inherits: policies may ask the network, but not with our rights."""


def evaluate_policies(
    policies: Mapping[str, ValidatingPolicy], plan: bytes, run: RunConfig, context: Context
) -> Verdict:
    """Return what ``policies`` say of the rendered plan, whose content is ``plan``, with sensitive values masked."""
    journal = context.journal
    try:
        forms = secret_forms(sensitive_values(plan))
    except (ValueError, RecursionError) as error:
        raise _failed(f"Magos cannot find the sensitive values of the plan: {error}") from error
    journal.mask_too(forms)
    actions = {name: policy.action for name, policy in policies.items()}
    with _evaluation_folder(context, policies) as folder:
        finished = _run(folder, run, context)
        try:
            output = read_limited(folder / "report", _LARGEST_REPORT)
            results = _masked(read_report(output), context)
            verdict = judge(actions, results, finished.code)
        except (OSError, ValueError) as error:
            said = _complaint(finished.tail)
            ending = compose("kyverno {ending}", ending=cleared(_ending(finished.code)))
            if said:
                ending = compose("{ending}: {said}", ending=ending, said=said)
            if tool_met_full(context.paths, finished.tail):
                raise StageFailed(Reason.VOLUME_FULL, ending) from error
            raise _failed(compose("{error} ({ending})", error=error, ending=ending)) from error
    _say(verdict, context)
    idle = [
        f"policy {name} has no validations: it checks nothing" for name in sorted(policies) if _is_idle(policies[name])
    ]
    return msgspec.structs.replace(verdict, warnings=(*verdict.warnings, *idle))


def violations_message(violations: tuple[Violation, ...]) -> str:
    """Return the message of a plan that policies forbid: how many violations block it, and the first of them."""
    blocking = [each for each in violations if each.action is not ViolationAction.AUDIT]
    number = cleared(f"{len(blocking)} violation{'s' if len(blocking) != 1 else ''}")
    listed = "; ".join(f"{each.policy}: {' '.join(each.message.split())}" for each in blocking)
    found = shorten(compose("{number}: {listed}", number=number, listed=listed), _LONGEST_LIST)
    return compose("{found}; change the code or the policy", found=found)


def _is_idle(policy: ValidatingPolicy) -> bool:
    """Tell whether a policy can only pass: a field name with a typing error is enough, the API server drops it."""
    return not policy.spec.get("validations")


@contextmanager
def _evaluation_folder(context: Context, policies: Mapping[str, ValidatingPolicy]) -> Iterator[Path]:
    """Make the folder that the evaluator works in, with the policies as it is to read them."""
    folder = context.paths.tmp / "policy-evaluation"
    remove(folder)
    try:
        for name, policy in policies.items():
            # "Ignore" would turn an error in a match condition into a skip, and an error must never let a plan pass.
            strict = msgspec.structs.replace(policy, spec={**policy.spec, "failurePolicy": "Fail"})
            write_private(folder / "policies" / policy_file(name), policy_text(strict).encode())
        yield folder
    finally:
        remove(folder)


def _run(folder: Path, run: RunConfig, context: Context) -> Finished:
    program = shutil.which(_PROGRAM, path=run.environment.get("PATH"))
    if program is None:
        raise _failed(f"there is no program {_PROGRAM} in the runner image; use an image that has it")
    home = folder / "home"
    home.mkdir()
    inherited = {name: value for name, value in run.environment.items() if name.lower() in _PASSED_ON}
    arguments = ["apply", str(folder / "policies"), "--json", str(context.paths.plan_json)]
    report = os.open(folder / "report", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    began = monotonic()
    try:
        finished = context.supervisor.run(
            Command(
                arguments=[program, *arguments, "--policy-report", "--output-format", "json"],
                directory=folder,
                environment={**inherited, "HOME": str(home), "TMPDIR": str(home)},
                stop_timeout=_STOP_TIMEOUT,
                limit=LIMIT_SECONDS,
                stdout=report,
            )
        )
    except OSError as error:
        raise _failed(f"{_PROGRAM} cannot be started: {error}; check the runner image") from error
    finally:
        os.close(report)
    if finished.code < 0 and monotonic() - began >= LIMIT_SECONDS:
        raise _failed(f"{_PROGRAM} took longer than {LIMIT_SECONDS:g} s; simplify the policies or split the plan")
    return finished


def _masked(results: tuple[PolicyResult, ...], context: Context) -> tuple[PolicyResult, ...]:
    """Mask what messages say, before anything is cut or composed of them."""
    return tuple(
        msgspec.structs.replace(entry, message=context.journal.masked(entry.message)) if entry.message else entry
        for entry in results
    )


def _say(verdict: Verdict, context: Context) -> None:
    """Write everything to the log: status and history have room for a part of it only."""
    lines = [f"violation ({each.action}) of policy {each.policy}: {each.message}" for each in verdict.violations]
    found = f"{len(verdict.violations)} violations" if verdict.violations else "no violations"
    # The messages of the report are masked already.
    context.journal.say(cleared("\n".join([*lines, f"{verdict.evaluated} policies evaluated: {found}"])))


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"


def _complaint(tail: bytes) -> str:
    """Return what the evaluator said at its end, on one line: its last error, else its last line."""
    lines = [line.strip() for line in tail.decode("utf-8", "replace").splitlines() if line.strip()]
    begin = max((number for number, line in enumerate(lines) if line.startswith(_ERROR)), default=len(lines) - 1)
    return shorten(" ".join(lines[begin:]).removeprefix(_ERROR), 300) if lines else ""


def _failed(problem: str) -> StageFailed:
    return StageFailed(
        Reason.POLICY_EVALUATION_FAILED, compose("policies cannot be evaluated: {problem}", problem=problem)
    )
