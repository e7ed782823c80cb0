"""The audit log is read as requests: each once, none half-written."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.envtest.audit import AuditLog, count_by_user_and_verb


def _line(
    audit_id: str, user: str = "alice", verb: str = "get", stage: str = "ResponseComplete", **more: object
) -> str:
    entry = {"kind": "Event", "auditID": audit_id, "stage": stage, "verb": verb, "user": {"username": user}, **more}
    return json.dumps(entry) + "\n"


def test_a_request_carries_who_what_and_the_outcome(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(
        _line(
            "1",
            verb="patch",
            requestURI="/apis/magos.example/v1/namespaces/n/workspaces/w/status",
            userAgent="magos/1",
            objectRef={
                "resource": "workspaces",
                "namespace": "n",
                "name": "w",
                "subresource": "status",
                "apiGroup": "magos.example",
            },
            responseStatus={"code": 409},
        )
    )
    (request,) = AuditLog(path).requests()
    assert (request.user, request.verb, request.group, request.resource) == (
        "alice",
        "patch",
        "magos.example",
        "workspaces/status",
    )
    assert (request.namespace, request.name, request.code, request.user_agent) == ("n", "w", 409, "magos/1")


def test_an_impersonated_request_counts_for_the_impersonated_user(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text(_line("1", user="admin", impersonatedUser={"username": "bob"}))
    assert count_by_user_and_verb(AuditLog(path).requests()) == {("bob", "get"): 1}


def test_a_log_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    assert log.mark() == 0
    assert log.requests() == []


_EVENTS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["ResponseStarted", "ResponseComplete", "Panic"])))


@given(_EVENTS, _EVENTS, st.data())
def test_however_the_log_is_cut_each_request_is_seen_once(
    before: list[tuple[int, str]], after: list[tuple[int, str]], data: st.DataObject
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.log"
        old = "".join(_line(f"old-{number}", stage=stage) for number, stage in before)
        new = "".join(_line(f"new-{number}", stage=stage) for number, stage in after)
        path.write_text(old)
        log = AuditLog(path)
        mark = log.mark()
        cut = data.draw(st.integers(0, len(new)))
        path.write_text(old + new[:cut])
        complete = new[:cut].count("\n")
        seen = {number for number, _ in after[:complete]}
        assert len(log.requests(mark)) == len(seen)
        assert len(log.requests()) == len({number for number, _ in before}) + len(seen)
