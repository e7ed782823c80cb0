"""Reads the report of ``kyverno apply --policy-report --output-format json`` (spec §7.4).

Everything that is not exactly one complete report about exactly the selected policies is a ``ValueError``, so the
run fails (invariant I6). The report decides; the exit code is only a second alarm (field case F77). Each word of the
report is mapped on purpose: ``pass`` and ``skip`` (match conditions not met) are fine, ``warn`` is shown, ``fail`` is a
violation, ``error`` and any other word mean that nothing is known.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, assert_never

import msgspec

from magos.api.result import Violation, ViolationAction

_KIND: Final = "ClusterReport"
_NAMED: Final = 5
_COMPLAINS: Final = 1
"""The exit code of an evaluation with violations, also with those that the report calls warnings."""
_LEFT_OUT: Final = "what cannot be read is left out: check the fields of the policies"
_NO_MESSAGE: Final = "the policy gives no message"


class Word(StrEnum):
    """What a report says of one policy."""

    PASS = "pass"  # noqa: S105 - a word of the report
    FAIL = "fail"
    WARN = "warn"
    ERROR = "error"
    SKIP = "skip"


class PolicyResult(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a report."""

    policy: str
    result: Word
    message: str = ""


class _Report(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    results: tuple[PolicyResult, ...]
    summary: dict[Word, int]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the selected policies say: every violation, the blocking ones first, and what else is worth showing."""

    evaluated: int = 0
    violations: tuple[Violation, ...] = ()
    warnings: tuple[str, ...] = ()


def read_report(output: bytes) -> tuple[PolicyResult, ...]:
    """Return the results in ``output``, a line of any length among lines that are no JSON objects.

    Raises ``ValueError`` unless there is exactly one report and its summary agrees with its results.
    """
    lines = [line for line in output.split(b"\n") if line.lstrip().startswith(b"{")]
    if len(lines) != 1:
        raise ValueError(f"there are {len(lines)} reports" if lines else f"there is no report; {_LEFT_OUT}")
    try:
        report = msgspec.json.decode(lines[0], type=_Report)
    except RecursionError:
        raise ValueError("the report is nested too deeply") from None
    except msgspec.MsgspecError as error:
        raise ValueError(f"the report is not complete or has another form: {error}") from None
    if report.kind != _KIND:
        raise ValueError(f"the report is a {report.kind[:64]!r}, expected is {_KIND}")
    counted = {word: sum(entry.result is word for entry in report.results) for word in Word}
    if counted != {word: report.summary.get(word, 0) for word in Word}:
        raise ValueError("the report's summary does not agree with its results")
    return report.results


def judge(actions: Mapping[str, ViolationAction], results: Iterable[PolicyResult], code: int) -> Verdict:
    """Return what ``results`` mean for the selected policies, the keys of ``actions``.

    Raises ``ValueError`` if a policy could not be evaluated or is not reported, if a policy is reported that was not
    selected, and if the evaluator's exit code says more than its report.
    """
    violations: list[Violation] = []
    warnings: list[str] = []
    errors: list[str] = []
    reported: set[str] = set()
    for entry in results:
        if entry.policy not in actions:
            raise ValueError(f"policy {entry.policy[:253]!r} is reported but was not selected")
        reported.add(entry.policy)
        match entry.result:
            case Word.PASS | Word.SKIP:
                pass
            case Word.WARN:
                warnings.append(f"policy {entry.policy}: {entry.message or _NO_MESSAGE}")
            case Word.ERROR:
                errors.append(f"policy {entry.policy} cannot be evaluated: {entry.message or _NO_MESSAGE}")
            case Word.FAIL:
                violations.append(Violation(entry.policy, entry.message or _NO_MESSAGE, actions[entry.policy]))
            case _:
                assert_never(entry.result)
    if errors:
        raise ValueError(_listed(errors))
    missing = sorted(actions.keys() - reported)
    if missing:
        raise ValueError(f"{_listed([f'policy {policy} is not reported' for policy in missing])}; {_LEFT_OUT}")
    if code != 0 and not (code == _COMPLAINS and (violations or warnings)):
        raise ValueError(f"the exit code is {code}, which the report does not explain")
    violations.sort(key=lambda each: (each.action is ViolationAction.AUDIT, each.policy))
    return Verdict(evaluated=len(reported), violations=tuple(violations), warnings=tuple(warnings))


def _listed(problems: list[str]) -> str:
    more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
    return "; ".join(problems[:_NAMED]) + more
