"""The result: always small enough, never without what the controller acts on, never believed unread."""

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magos.api.names import JobType
from magos.api.result import (
    Outcome,
    PlannedChanges,
    PolicyCount,
    Result,
    Violation,
    ViolationAction,
    decode_result,
)
from magos.bounds import RUN_RESULT
from magos.ids import is_git_sha, parse_digest, parse_run_id
from magos.runner.report import LARGEST_MESSAGE, encode_result

RUN = "20260101T000000-00000001"
number = st.integers(0, 10**9)
# Lone surrogates too: that is how bytes that are no UTF-8 arrive.
anything = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF), max_size=40)
long_text = st.builds(lambda text, times: text * times, anything, st.sampled_from([1, 1, 100]))
violation = st.builds(Violation, policy=long_text, message=long_text, action=st.sampled_from(ViolationAction))
results = st.builds(
    Result,
    run_id=st.just(RUN),
    phase=st.sampled_from(JobType),
    result=st.just(Outcome.FAILED),
    exit_code=st.integers(1, 255),
    reason=st.sampled_from(["PlanFailed", "PolicyEvaluationFailed"]),
    message=long_text,
    revision=st.just("a" * 40),
    plan_digest=st.just(f"sha256:{'b' * 64}"),
    terraform_version=st.just("1.12.6-" + "r" * 57),
    distribution=st.just("opentofu"),
    has_changes=st.booleans(),
    changes=st.builds(PlannedChanges, add=number, change=number, destroy=number),
    policies=st.builds(PolicyCount, selected=number, evaluated=number),
    violations=st.lists(violation, max_size=8).map(lambda some: tuple(some * 30)),
    violations_total=number,
    warnings=st.lists(long_text, max_size=5).map(tuple),
)
KEPT = [name for name in Result.__struct_fields__ if name not in {"message", "violations", "warnings", "truncated"}]


@given(results)
def test_every_result_fits_and_keeps_identity_reason_revision_digest_and_counts(result: Result) -> None:
    encoded = encode_result(result)
    assert len(encoded) <= LARGEST_MESSAGE
    decoded = decode_result(encoded)
    assert [getattr(decoded, name) for name in KEPT] == [getattr(result, name) for name in KEPT]
    assert len(decoded.violations) <= len(result.violations)
    if not decoded.truncated:
        assert (len(decoded.violations), len(decoded.warnings)) == (len(result.violations), len(result.warnings))


def test_a_small_result_passes_whole() -> None:
    result = Result(run_id=RUN, phase=JobType.PLAN, result=Outcome.SUCCEEDED, exit_code=0, warnings=("w",))
    assert decode_result(encode_result(result)) == result


def test_the_wire_form_is_that_of_schema_version_1() -> None:
    encoded = encode_result(Result(run_id=RUN, phase=JobType.PLAN, result=Outcome.SUCCEEDED, exit_code=0))
    assert set(msgspec.json.decode(encoded)) == {
        *("v", "runID", "phase", "result", "exitCode", "reason", "message", "revision", "planDigest"),
        *("terraformVersion", "distribution", "hasChanges", "changes", "policies", "violations"),
        *("violationsTotal", "warnings", "truncated"),
    }


GOOD = {"v": 1, "runID": RUN, "phase": "plan", "result": "Succeeded", "exitCode": 0}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"v": 2}, "schema version 2"),
        ({"phase": "destroy"}, "unreadable"),
        ({"exitCode": "0"}, "unreadable"),
        ({"exitCode": 1}, "Succeeded with exit code 1"),
        ({"result": "Failed"}, "Failed with exit code 0"),
        ({"revision": "main"}, "no full commit ID"),
        ({"planDigest": "md5:1"}, "not a digest"),
        ({"runID": "x"}, "not a run ID"),
    ],
)
def test_a_result_that_is_not_one_is_refused_with_the_cause(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        decode_result(msgspec.json.encode(GOOD | change))


@pytest.mark.parametrize("message", ["", "{", '{"v":1}', "[]", "\ud800", "x" * 20000, b"\xff"])
def test_rubbish_is_a_value_error(message: str | bytes) -> None:
    with pytest.raises(ValueError, match="runner"):
        decode_result(message)


def test_fields_of_a_newer_runner_are_tolerated() -> None:
    assert decode_result(msgspec.json.encode(GOOD | {"new": [1]})).run_id == RUN


@given(st.text() | st.binary())
@example("[" * 16_000)
@example('{"v":1,"x":' + "[" * 16_000)
@example('{"v":' + "9" * 5000 + "}")
@example(b'{"v":1,"runID":"\xff"}')
def test_decoding_is_total(message: str | bytes) -> None:
    with pytest.raises(ValueError, match="runner"):
        decode_result(message)


anything_in_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
FIELDS = ["v", "runID", "phase", "result", "exitCode", "revision", "planDigest", "changes", "violations", "warnings"]


@given(st.dictionaries(st.sampled_from(FIELDS), anything_in_json, max_size=3))
@example({"exitCode": 10**400, "result": "Failed"})
@example({"exitCode": -1, "result": "Failed"})
@example({"changes": {"add": 10**400}})
@example({"revision": "A" * 40})
@example({"revision": "\ud800"})
@example({"planDigest": "sha256:" + "g" * 64})
@example({"runID": "x"})
@example({"exitCode": 1})
@example({"exitCode": 256, "result": "Failed"})
@example({"violations": [{"policy": "", "message": "", "action": "deny"}]})
def test_a_result_with_any_other_fields_is_refused_or_says_exactly_that(changes: dict[str, object]) -> None:
    try:
        result = decode_result(json.dumps(GOOD | changes))
    except ValueError:
        return
    assert (result.result is Outcome.SUCCEEDED) == (result.exit_code == 0)
    assert 0 <= result.exit_code <= 255
    assert all(0 <= count < 2**31 for count in msgspec.structs.astuple(result.changes))
    assert result.revision == "" or is_git_sha(result.revision)
    assert result.plan_digest == "" or parse_digest(result.plan_digest)
    assert result.run_id == "" or parse_run_id(result.run_id)
    again = json.loads(encode_result(result))
    for name, value in (GOOD | changes).items():
        if not isinstance(value, dict | list | float):  # nested ones may leave fields out, and 1.0 is a whole number
            assert again[name] == value, "what was accepted is what was written, and can be written again"


@given(results, st.data())
def test_a_message_that_was_cut_is_refused(result: Result, data: st.DataObject) -> None:
    whole = encode_result(result)
    with pytest.raises(ValueError, match="runner"):
        decode_result(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_bound_run_result() -> None:
    """What is too long is not even parsed: a container that reads untrusted plans wrote it."""
    whole = msgspec.json.encode(
        Result(run_id=RUN, phase=JobType.PLAN, result=Outcome.FAILED, exit_code=1, message="x")
    ).decode()
    assert decode_result(whole + " " * (RUN_RESULT.limit - len(whole))).message == "x"
    with pytest.raises(ValueError, match="more than any runner writes"):
        decode_result(whole + " " * (RUN_RESULT.limit - len(whole) + 1))
