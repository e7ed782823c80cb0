"""The API server of the one-machine mode: who logs in sees what the cluster has and what history keeps."""

from contextlib import closing
from pathlib import Path

import pytest

from magos.api.names import JobType
from tests.e2e.console import Console, events_of, pod_outputs
from tests.e2e.onemachine import OneMachine
from tests.envtest.cluster import eventually

_ACCOUNT = "system:serviceaccount:magos-system:magos-api"


@pytest.fixture
def namespace(equipped: OneMachine) -> str:
    """A namespace with a Project."""
    return equipped.namespace()


def test_a_wrong_password_opens_nothing(equipped: OneMachine) -> None:
    with Console(equipped) as console:
        refused = console.login("wrong")
        del console.http.headers["Authorization"]
        assert console.http.get("/apis/magosproject.io/v1alpha1/workspaces").status_code == 401
    assert refused.status_code == 403
    assert "idToken" not in refused.text


def test_the_administrator_sees_a_workspace_its_changes_its_runs_and_their_logs(
    equipped: OneMachine, namespace: str, tmp_path: Path
) -> None:
    with Console(equipped) as console, pod_outputs(equipped, namespace, tmp_path) as printed:
        with closing(console.events("workspaces", namespace=namespace)) as events:
            assert next(events)["event"] == "synced"
            equipped.apply(equipped.workspace_document(namespace, "shown"))
            added = events_of(next(events))
            assert (added["type"], added["object"]["metadata"]["name"]) == ("ADDED", "shown")
            changed = events_of(next(events))
            assert (changed["type"], changed["object"]["metadata"]["name"]) == ("MODIFIED", "shown")
        workspace = equipped.wait_applied(namespace, "shown", equipped.revision)
        listed = console.get("workspaces", namespace=namespace)
        assert [each["status"]["phase"] for each in listed] == ["Applied"]
        run_id = workspace.status.current_run_id

        def recorded() -> bool:
            run = console.get(f"workspaces/{namespace}/shown/runs/{run_id}")
            return bool(run.get("plan", {}).get("logKey") and run.get("apply", {}).get("logKey") and run.get("result"))

        eventually(recorded, within=60)
        [run] = console.runs(namespace, "shown")
        assert (run["runID"], run["result"], run["observedRevision"]) == (run_id, "Applied", equipped.revision)
        for phase in JobType:
            told = run[str(phase)]
            assert (told["result"], told["exitCode"]) == ("Succeeded", 0)
            text = console.log(namespace, "shown", run_id, phase)
            assert text == printed.of(told["podName"], phase)
            assert told["logSizeBytes"] == len(text)


def test_the_account_of_the_api_server_is_refused_nothing_that_it_asks_for(equipped: OneMachine) -> None:
    audit = equipped.audit
    with Console(equipped) as console:
        console.get("workspaces")
    refused = {
        (r.verb, r.resource, r.namespace) for r in audit.requests(0) if r.user == _ACCOUNT and r.code in (401, 403)
    }
    assert refused == set()
