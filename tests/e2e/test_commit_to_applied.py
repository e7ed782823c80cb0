"""From a Git commit to Applied, with everything real: API server, Git, OpenTofu, the stages of the pods."""

import json
import subprocess
import sys
from pathlib import Path

from magos.api.annotations import DETECTED_REVISION, EXECUTION_ALLOWED, RECONCILE_REQUEST
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.workspace import Workspace
from magos.cli.demo import sample_manifests
from tests.e2e.onemachine import OneMachine
from tests.envtest.audit import WRITE_VERBS
from tests.envtest.cluster import eventually

HOLD = "tests.magos.example/hold"
CONTROLLERS = "system:serviceaccount:magos-system:magos-"


def state_of(here: OneMachine, namespace: str, name: str) -> str:
    path = here.state_file(namespace, name)
    assert path is not None, f"{name} wrote no state"
    return path.read_text()


def test_the_samples_reach_applied_at_the_commit_with_their_state_written(here: OneMachine, namespace: str) -> None:
    documents = sample_manifests(here.here.repo_url, namespace)
    names = [d["metadata"]["name"] for d in documents if d["kind"] == "Workspace"]
    assert len(names) == 3
    here.apply(*documents)
    for name in names:
        workspace = here.wait_applied(namespace, name, here.revision)
        assert len(workspace.status.observed_revision) == 40
        state = json.loads(state_of(here, namespace, name))
        assert state["resources"], f"{name} applied nothing"
    table = here.here.kubectl.run("get", "ws", "-n", namespace)
    assert all(name in table for name in names)
    assert table.count("Applied") == 3
    assert here.revision in table


def test_the_phases_of_a_run_are_observable_in_order(here: OneMachine, namespace: str) -> None:
    seen: list[Phase] = []

    def applied(workspace: Workspace) -> bool:
        phase = workspace.status.phase
        if phase is not None and seen[-1:] != [phase]:
            seen.append(phase)
        return phase is Phase.APPLIED

    here.apply(here.workspace_document(namespace, "ordered"))
    here.wait(namespace, "ordered", applied)
    assert seen == [Phase.PENDING, Phase.PLANNING, Phase.PLANNED, Phase.APPLYING, Phase.APPLIED]


def test_an_announced_commit_is_applied_exactly(here: OneMachine, namespace: str) -> None:
    here.apply(here.workspace_document(namespace, "follower"))
    first = here.wait_applied(namespace, "follower", here.revision)
    announced = here.here.repository.release("1.1.0", ["dev"])
    later = here.here.repository.release("1.2.0", ["dev"])  # the branch moves on: the announced commit counts
    here.annotate(namespace, "follower", {DETECTED_REVISION: announced})
    workspace = here.wait_applied(namespace, "follower", announced)
    assert workspace.status.current_run_id != first.status.current_run_id
    assert workspace.status.current_run is not None
    assert workspace.status.current_run.revision == announced != later
    assert '"1.1.0"' in state_of(here, namespace, "follower")
    here.wait(namespace, "follower", lambda w: DETECTED_REVISION not in w.metadata.annotations)
    here.wait(namespace, "follower", lambda w: EXECUTION_ALLOWED not in w.metadata.annotations)


def test_a_broken_module_fails_with_its_diagnostic_and_recovers_on_request(here: OneMachine, namespace: str) -> None:
    repository = here.here.repository
    here.apply(here.workspace_document(namespace, "broken"))
    here.wait_applied(namespace, "broken", here.revision)
    bad = repository.break_module("dev")
    try:
        here.annotate(namespace, "broken", {DETECTED_REVISION: bad})
        failed = here.wait(namespace, "broken", lambda w: w.status.phase is Phase.FAILED)
        assert failed.status.reason == Reason.PLAN_FAILED
        assert "no_such_variable" in failed.status.message
        ready = next(c for c in failed.status.conditions if c.type == "Ready")
        assert (ready.status, ready.reason) == ("False", "PlanFailed")
    finally:
        good = repository.repair_module("dev")
    here.annotate(namespace, "broken", {DETECTED_REVISION: good})
    request = here.request(namespace, "broken")
    workspace = here.wait_applied(namespace, "broken", good)
    assert workspace.status.observed_revision == good
    # The request is answered once, and a client can see that it was.
    here.wait(
        namespace,
        "broken",
        lambda w: (
            w.status.last_handled_reconcile_request == request and RECONCILE_REQUEST not in w.metadata.annotations
        ),
    )


def test_a_workspace_deleted_during_an_apply_waits_for_it(here: OneMachine, namespace: str) -> None:
    slow = here.here.repository.slow_down("staging", 5)
    try:
        document = here.workspace_document(
            namespace, "leaving", source={"targetRevision": slow, "path": "environments/staging"}
        )
        # Held by somebody else: with the last finalizer the Workspace goes, and its volume with it.
        document["metadata"]["finalizers"] = [HOLD]
        here.apply(document)
        here.wait(namespace, "leaving", lambda w: w.status.reason == "Applying")
        state = state_of_soon(here, namespace, "leaving")
        here.here.kubectl.run("delete", "workspace", "leaving", "-n", namespace, "--wait=false")
        deleting = here.wait(namespace, "leaving", lambda w: w.status.phase is Phase.DELETING)
        assert deleting.status.message, "a deletion that waits says for what"
        here.wait(namespace, "leaving", lambda w: w.metadata.finalizers == (HOLD,))
        # The apply ran to its end although its Workspace was being deleted.
        assert "terraform_data" in state.read_text()
        assert json.loads(state.read_text())["outputs"]["release"]
        release = ["patch", "workspace", "leaving", "-n", namespace, "--type=merge"]
        here.here.kubectl.run(*release, "--patch", '{"metadata": {"finalizers": null}}')
        here.wait_gone(namespace, "leaving")
    finally:
        here.here.repository.repair_module("staging")


def state_of_soon(here: OneMachine, namespace: str, name: str) -> Path:
    """Return the state's path once the apply began to write it."""
    path = eventually(lambda: here.state_file(namespace, name))
    assert path is not None
    return path


def test_logs_of_the_stages_are_served_through_the_api_server(here: OneMachine, namespace: str) -> None:
    here.apply(here.workspace_document(namespace, "talkative"))
    here.wait_applied(namespace, "talkative", here.revision)
    selector = "magosproject.io/workspace=talkative,magosproject.io/job-type=plan"
    logs = {
        stage: here.here.kubectl.run("logs", "-n", namespace, "-l", selector, "-c", stage, "--tail=-1")
        for stage in ("fetch", "terraform", "job")
    }
    assert "[magos-job] " in logs["fetch"]
    assert "terraform_data" in logs["terraform"]
    assert "[magos-job] " in logs["job"]


def test_the_tree_command_shows_every_workspace_with_phase_and_revision(here: OneMachine, namespace: str) -> None:
    here.apply(here.workspace_document(namespace, "leaf"))
    here.wait_applied(namespace, "leaf", here.revision)
    answer = subprocess.run(
        [Path(sys.executable).parent / "magos", "tree", "shop", "-n", namespace],
        env={"KUBECONFIG": str(here.here.plane.admin_kubeconfig), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Project shop  Ready/DefaultParallel" in answer.stdout
    assert "leaf" in answer.stdout
    assert f"revision {here.revision[:7]}" in answer.stdout


def test_an_empty_plan_ends_applied_without_an_apply_job(here: OneMachine, namespace: str) -> None:
    here.apply(here.workspace_document(namespace, "steady"))
    here.wait_applied(namespace, "steady", here.revision)
    before = here.audit.mark()
    request = here.request(namespace, "steady")
    workspace = here.wait(namespace, "steady", lambda w: w.status.last_handled_reconcile_request == request)
    assert (workspace.status.phase, workspace.status.reason) == (Phase.APPLIED, "NoChanges")
    created = [
        r.name
        for r in here.audit.requests(before)
        if (r.verb, r.resource, r.namespace) == ("create", "jobs", namespace)
    ]
    assert len(created) == 1
    assert "-plan-" in created[0]


def test_a_run_costs_few_writes_and_a_quiet_system_none(here: OneMachine, namespace: str) -> None:
    audit = here.audit
    before = audit.mark()
    here.apply(here.workspace_document(namespace, "frugal"))
    here.wait_applied(namespace, "frugal", here.revision)
    here.wait(namespace, "frugal", lambda w: EXECUTION_ALLOWED not in w.metadata.annotations)
    requests = [r for r in audit.requests(before) if r.user.startswith(CONTROLLERS)]
    mine = [r for r in requests if r.namespace == namespace and r.resource not in ("events", "leases")]
    writes = [r for r in mine if r.verb in WRITE_VERBS and r.code < 300]
    first = next(i for i, r in enumerate(writes) if r.resource == "workspaces/status")
    last = max(i for i, r in enumerate(writes) if r.resource == "workspaces/status")
    # The Project's first status is its own, wherever it falls.
    counted = [r for r in writes[first : last + 1] if r.resource != "projects/status"]
    print("\n".join(f"{r.verb} {r.resource} {r.name} by {r.user.rsplit(':')[-1]}" for r in counted))
    # Fifteen, and two more: without RefWatcher the commit is known from the plan, so permission is given anew for it.
    assert len(counted) <= 17
    # Nothing moves any more: no writes, and no list, which would mean that a watch was lost.
    quiet = audit.mark()
    beats = 3  # of each controller's lease: proof that the controllers are alive while they are silent
    eventually(
        lambda: all(
            sum(r.resource == "leases" and r.verb in WRITE_VERBS for r in audit.requests(quiet) if r.user == user)
            >= beats
            for user in (f"{CONTROLLERS}workspace", f"{CONTROLLERS}project")
        )
    )
    noise = [
        r
        for r in audit.requests(quiet)
        if r.user.startswith(CONTROLLERS)
        and r.resource not in ("leases", "events")
        and (r.verb in WRITE_VERBS or r.verb == "list")
        and r.namespace in (namespace, "")
    ]
    assert not noise
