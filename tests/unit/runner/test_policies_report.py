"""The policy report: believed only whole, about exactly the selected policies, and never by its exit code alone."""

from collections.abc import Mapping

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magos.api.result import Violation, ViolationAction
from magos.runner.policies import violations_message
from magos.runner.policyreport import PolicyResult, Word, judge, read_report

DENY, WARN, AUDIT = ViolationAction.DENY, ViolationAction.WARN, ViolationAction.AUDIT
names = st.sampled_from(["a", "b", "c", "d"])
entries = st.builds(PolicyResult, policy=names, result=st.sampled_from(Word), message=st.text(max_size=30))
selections = st.dictionaries(names, st.sampled_from(ViolationAction), max_size=4)
noise = st.lists(st.text(max_size=20).filter(lambda text: "{" not in text and "\n" not in text), max_size=3)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


def report(results: list[PolicyResult], /, **changes: object) -> bytes:
    summary = {word: sum(entry.result is word for entry in results) for word in Word}
    return msgspec.json.encode({"kind": "ClusterReport", "summary": summary, "results": results} | changes)


@given(st.lists(entries, max_size=6), noise, noise)
def test_a_report_is_found_among_other_lines_and_read_as_it_is(
    results: list[PolicyResult], before: list[str], after: list[str]
) -> None:
    lines = [*(line.encode() for line in before), report(results), *(line.encode() for line in after)]
    assert read_report(b"\n".join(lines)) == tuple(results)


@given(st.lists(entries, max_size=6), st.data())
def test_a_report_cut_anywhere_is_refused(results: list[PolicyResult], data: st.DataObject) -> None:
    whole = report(results)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ValueError, match="report"):
        read_report(whole[:cut])


@given(st.binary(max_size=200))
@example(b"[" * 100_000)
@example(b'{"kind":' * 100_000)
@example(b'{"x":' + b"[" * 100_000)
@example(b'{"kind":"ClusterReport","results":[],"summary":null}')
def test_bytes_that_are_no_report_are_refused(output: bytes) -> None:
    with pytest.raises(ValueError, match="report"):
        read_report(output)


FAILED, PASSED = PolicyResult(policy="a", result=Word.FAIL), PolicyResult(policy="a", result=Word.PASS)


@given(st.lists(entries, max_size=4), st.lists(entries, max_size=4))
@example([FAILED], [PASSED])
@example([FAILED], [])
@example([FAILED, PASSED], [PASSED, PASSED])
@example([PASSED], [PASSED, FAILED])
def test_results_that_do_not_agree_with_the_summary_are_refused(
    counted: list[PolicyResult], shown: list[PolicyResult]
) -> None:
    output = report(shown, summary=msgspec.json.decode(report(counted))["summary"])
    if sorted(entry.result for entry in counted) == sorted(entry.result for entry in shown):
        assert read_report(output) == tuple(shown)
    else:
        with pytest.raises(ValueError, match="summary does not agree"):
            read_report(output)


@given(st.dictionaries(st.sampled_from(["kind", "results", "summary", "x"]), documents))
def test_json_of_another_form_is_refused(document: Mapping[str, object]) -> None:
    with pytest.raises(ValueError, match="report"):
        read_report(msgspec.json.encode(document))


@pytest.mark.parametrize(
    "output",
    [
        b"",
        report([]) + b"\n" + report([]),
        report([], kind="Report"),
        report([], summary={"fail": 1}),
        report([PolicyResult(policy="a", result=Word.FAIL)], summary={"pass": 1}),
        report([], results=[{"policy": "a", "result": "unknown"}]),
        report([], results=[{"policy": "a"}]),
        report([], results=None),
    ],
    ids=["nothing", "two", "of one object", "summary too high", "summary wrong", "new word", "no word", "no results"],
)
def test_each_flaw_of_a_report_is_refused(output: bytes) -> None:
    with pytest.raises(ValueError, match="report"):
        read_report(output)


def test_lines_of_any_length_are_read() -> None:
    (entry,) = read_report(report([PolicyResult(policy="a", result=Word.FAIL, message="m" * 1_000_000)]))
    assert len(entry.message) == 1_000_000


@given(selections, st.lists(entries, max_size=8), st.integers(-9, 3))
def test_a_plan_passes_only_if_every_selected_policy_was_reported_without_error(
    actions: dict[str, ViolationAction], results: list[PolicyResult], code: int
) -> None:
    words = [entry.result for entry in results]
    reported = {entry.policy for entry in results}
    sound = (
        reported == set(actions)
        and Word.ERROR not in words
        and (code == 0 or (code == 1 and not {Word.FAIL, Word.WARN}.isdisjoint(words)))
    )
    if not sound:
        with pytest.raises(ValueError):  # noqa: PT011 - which flaw is named first does not matter here
            judge(actions, results, code)
        return
    verdict = judge(actions, results, code)
    assert verdict.evaluated == len(actions)
    assert len(verdict.violations) == words.count(Word.FAIL)
    assert len(verdict.warnings) == words.count(Word.WARN)
    assert all(violation.action is actions[violation.policy] for violation in verdict.violations)
    assert all(violation.message for violation in verdict.violations)
    audits = [violation.action is AUDIT for violation in verdict.violations]
    assert audits == sorted(audits), "blocking violations come first"


@pytest.mark.parametrize(
    ("results", "code", "problem"),
    [
        ([], 0, "policy a is not reported; policy b is not reported; what cannot be read is left out"),
        ([("a", Word.PASS)], 0, "policy b is not reported"),
        ([("a", Word.PASS), ("b", Word.ERROR)], 1, "policy b cannot be evaluated: m"),
        ([("a", Word.FAIL), ("b", Word.ERROR)], 1, "policy b cannot be evaluated"),
        ([("a", Word.PASS), ("b", Word.PASS), ("c", Word.PASS)], 0, "policy 'c' is reported but was not selected"),
        ([("a", Word.FAIL), ("b", Word.PASS)], -9, "exit code is -9, which the report does not explain"),
        ([("a", Word.PASS), ("b", Word.SKIP)], 1, "exit code is 1, which the report does not explain"),
    ],
)
def test_the_flaw_of_an_evaluation_is_named(results: list[tuple[str, Word]], code: int, problem: str) -> None:
    given_results = [PolicyResult(policy=policy, result=word, message="m") for policy, word in results]
    with pytest.raises(ValueError, match=problem):
        judge({"a": DENY, "b": AUDIT}, given_results, code)


def test_the_message_counts_what_blocks_and_stays_short() -> None:
    violations = [Violation(f"p{number}", "one\ntwo " * 50, DENY) for number in range(9)]
    message = violations_message((*violations, Violation("q", "m", WARN), Violation("r", "m", AUDIT)))
    assert message.startswith("10 violations: p0: one two")
    assert message.endswith("; change the code or the policy")
    assert len(message) <= 512
    assert violations_message((Violation("p", "m", DENY), Violation("r", "s", AUDIT))) == (
        "1 violation: p: m; change the code or the policy"
    )
