"""Names, labels, source keys and times: deterministic, within their limits, and never two for one."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.annotations import execution_allowed, force_delete
from magos.api.labels import is_label_value, workspace_label
from magos.api.names import JobType, job_name, policies_name, source_key, volume_claim_name
from magos.api.timestamps import format_time, parse_time
from magos.ids import RunID, mint_run_id

_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_NAMES = st.from_regex(_SUBDOMAIN, fullmatch=True).filter(lambda name: len(name) <= 248)
_RUN = mint_run_id(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), b"\x00\x01\x02\x03")
_DATES = st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds
_RUNS = st.builds(mint_run_id, _DATES, st.binary(min_size=4, max_size=4))


@given(workspace=_NAMES, run=_RUNS, job_type=st.sampled_from(JobType))
def test_a_job_name_is_always_a_valid_object_name(workspace: str, run: RunID, job_type: JobType) -> None:
    name = job_name("team-a", workspace, run, job_type)
    assert len(name) <= 63
    assert _SUBDOMAIN.fullmatch(name)


@given(workspace=_NAMES)
def test_derived_names_are_valid_for_every_admitted_workspace(workspace: str) -> None:
    assert len(volume_claim_name(workspace)) <= 253
    assert _SUBDOMAIN.fullmatch(volume_claim_name(workspace))
    assert _SUBDOMAIN.fullmatch(policies_name(workspace, "0123456789abcdef"))
    assert is_label_value(workspace_label(workspace))


def test_long_names_that_differ_in_the_last_character_do_not_collide() -> None:
    one, other = "w" * 89 + "a", "w" * 89 + "b"
    assert workspace_label(one) != workspace_label(other)
    assert job_name("ns", one, _RUN, JobType.PLAN) != job_name("ns", other, _RUN, JobType.PLAN)
    assert volume_claim_name(one) != volume_claim_name(other)


def _relatives(names: tuple[str, str, str]) -> list[str]:
    """Workspace names that are hard to tell apart: long ones with a common beginning, and derived names as names."""
    stem, one, other = names
    found = [stem, f"{stem}-{one}", f"{stem}-{other}", f"{stem}.{one}", f"{stem}-{one}-{other}"]
    found += [f"{cut.rstrip('-.')}-{one}" for cut in (stem[:48], stem[:54], stem[:63]) if cut.rstrip("-.")]
    found += [policies_name(each, _DIGEST) for each in found] + [volume_claim_name(each) for each in found]
    found += [job_name("ns", each, _RUN, job_type) for each in found for job_type in JobType]
    return sorted({each for each in found if len(each) <= 248})


_DIGEST = "0123456789abcdef" * 4
_STEMS = st.one_of(
    _NAMES,
    st.integers(40, 70).flatmap(lambda size: st.text("ab-", min_size=size, max_size=size)).map(lambda t: f"a{t}b"),
)
_ENDS = st.from_regex(r"[a-z0-9]{1,12}", fullmatch=True)


@given(names=st.tuples(_STEMS, _ENDS, _ENDS))
def test_no_two_workspaces_share_a_derived_name(names: tuple[str, str, str]) -> None:
    """Also if they were named to meet, and whatever else is equal: namespace, run, and the policies' content."""
    workspaces = _relatives(names)
    derived = {
        "claims": [volume_claim_name(each) for each in workspaces],
        "config maps": [policies_name(each, _DIGEST) for each in workspaces],
        "jobs": [job_name("ns", each, _RUN, job_type) for each in workspaces for job_type in JobType],
    }
    for what, found in derived.items():
        assert len(found) == len(set(found)), what
        for name in found:
            assert len(name) <= (63 if what == "jobs" else 253), what
            assert _SUBDOMAIN.fullmatch(name), name
    labels = [workspace_label(each) for each in workspaces]
    assert len(labels) == len(set(labels))
    assert all(is_label_value(each) for each in labels)


@given(workspace=_NAMES.filter(lambda name: len(name) <= 48))
def test_names_that_were_never_cut_stay_as_they_are(workspace: str) -> None:
    assert policies_name(workspace, _DIGEST) == f"{workspace}-policies-{_DIGEST[:10]}"


def test_a_job_name_tells_namespaces_runs_and_types_apart() -> None:
    later = mint_run_id(datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC), b"\x00\x01\x02\x03")
    names = {
        job_name(namespace, "network", run, job_type)
        for namespace in ("a", "b")
        for run in (_RUN, later)
        for job_type in JobType
    }
    assert len(names) == 8


def test_the_names_of_the_specification() -> None:
    assert job_name("team-a", "network", _RUN, JobType.PLAN) == "network-plan-f25064ee"
    assert job_name("team-a", "x" * 47 + ".y", _RUN, JobType.APPLY).startswith("x" * 47 + "-apply-")
    assert volume_claim_name("network") == "network-data"
    assert workspace_label("n" * 63) == "n" * 63
    assert re.fullmatch(r"n{54}-[0-9a-f]{8}", workspace_label("n" * 64))
    assert policies_name("network", "0123456789abcdef") == "network-policies-0123456789"


def test_the_source_key_is_of_url_and_revision() -> None:
    keys = {source_key(url, revision) for url in ("https://x/a", "https://x/b") for revision in ("main", "v1")}
    assert len(keys) == 4
    assert all(re.fullmatch(r"[0-9a-f]{16}", key) for key in keys)
    assert source_key("https://x/a", "main") == "fe7b9dede18eba9e"


@pytest.mark.parametrize("value", ["True", "TRUE", "1", "yes", "", " true"])
def test_only_exactly_true_permits(value: str) -> None:
    assert not execution_allowed({"magosproject.io/execution-allowed": value})
    assert not force_delete({"magosproject.io/force-delete": value})
    assert execution_allowed({"magosproject.io/execution-allowed": "true"})
    assert force_delete({"magosproject.io/force-delete": "true"})
    assert not execution_allowed({})


@given(when=_DATES, hours=st.integers(-12, 14))
def test_times_survive_writing_and_reading(when: datetime, hours: int) -> None:
    aware = when.astimezone(timezone(timedelta(hours=hours)))
    text = format_time(aware)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text)
    assert parse_time(text) == aware.replace(microsecond=0)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-02T03:04:05"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_time(text)


def test_fractions_and_offsets_are_read() -> None:
    assert parse_time("2026-01-02T03:04:05.123456Z") == datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)
    assert parse_time("2026-01-02T05:04:05+02:00") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    with pytest.raises(ValueError, match="zone"):
        format_time(datetime(2026, 1, 2))  # noqa: DTZ001 - the point of the test
