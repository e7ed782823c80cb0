"""The sample Rollout, all real: dev, staging, prod in order; a broken staging halts, the fix goes through."""

import msgspec
import pytest
import yaml

from magos.api.annotations import DETECTED_REVISION
from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.rollout import Rollout
from magos.api.workspace import Workspace
from magos.cli.demo import sample_manifests
from magos.ids import GitSHA
from magos.local.controlplane.installation import manifest_folder
from tests.e2e.onemachine import Document, OneMachine

MEMBERS = ("shop-dev", "shop-staging", "shop-prod")
GRANTER = "system:serviceaccount:magos-system:magos-rollout"


def sample_rollout(namespace: str) -> Document:
    document: Document = yaml.safe_load((manifest_folder("samples") / "promotion" / "rollout.yaml").read_text())
    document["metadata"]["namespace"] = namespace
    return document


def announce(here: OneMachine, namespace: str, revision: GitSHA) -> None:
    """Tell the last step first: the order in which they hear of a commit must not matter."""
    for name in reversed(MEMBERS):
        here.annotate(namespace, name, {DETECTED_REVISION: revision})


def rollout(here: OneMachine, namespace: str) -> Rollout:
    found = here.here.kubectl.run("get", "rollout", "shop", "-n", namespace, "-o", "json")
    return msgspec.json.decode(found, type=Rollout)


def wait_rollout(here: OneMachine, namespace: str, reason: Reason) -> Rollout:
    """Return the Rollout once it has this reason."""
    condition = f"--for=jsonpath={{.status.reason}}={reason}"
    here.here.kubectl.run("wait", condition, "rollout/shop", "-n", namespace, "--timeout=180s")
    return rollout(here, namespace)


def first_granted(here: OneMachine, namespace: str, since: int) -> list[str]:
    """Whose annotations the rollout controller wrote, in the order of the first time."""
    written = (
        each.name
        for each in here.audit.requests(since)
        if (each.user, each.verb, each.resource) == (GRANTER, "patch", "workspaces")
        and each.namespace == namespace
        and each.code == 200
    )
    return list(dict.fromkeys(written))


@pytest.fixture
def promoted(here: OneMachine, namespace: str) -> str:
    """A namespace in which the samples were promoted once, from dev over staging to prod."""
    mark = here.audit.mark()
    revision = here.here.repository.release("2.0.0")
    members = [each for each in sample_manifests(here.here.repo_url, namespace) if each["kind"] == "Workspace"]
    for member in members:
        member["metadata"]["annotations"] = {
            DETECTED_REVISION: revision,
            "magosproject.io/reconcile-interval": "1h",
        }
    here.apply(sample_rollout(namespace), *members)
    for name in MEMBERS:
        here.wait_applied(namespace, name, revision)
    wait_rollout(here, namespace, Reason.ROLLOUT_COMPLETED)
    assert first_granted(here, namespace, mark) == list(MEMBERS)
    return namespace


def starts(workspace: Workspace) -> str:
    return workspace.status.last_run_started_at or ""


def test_a_commit_walks_through_the_sample_rollout_in_order(here: OneMachine, promoted: str) -> None:
    done = rollout(here, promoted).status
    assert (done.phase, done.current_step, done.unselected_workspaces) == (Phase.APPLIED, 3, 0)
    here.here.kubectl.run("wait", "--for=condition=Ready", "rollout/shop", "-n", promoted, "--timeout=5s")
    first = [here.workspace(promoted, name) for name in MEMBERS]
    mark = here.audit.mark()
    revision = here.here.repository.release("2.1.0")
    announce(here, promoted, revision)
    members = [here.wait_applied(promoted, name, revision) for name in MEMBERS]
    assert first_granted(here, promoted, mark) == list(MEMBERS)
    assert [starts(each) for each in members] == sorted(starts(each) for each in members)
    assert all(starts(new) > starts(old) for new, old in zip(members, first, strict=True))
    completed = wait_rollout(here, promoted, Reason.ROLLOUT_COMPLETED)
    assert completed.status.current_step == 3


def test_a_commit_that_breaks_staging_halts_before_prod_and_the_fix_is_promoted(
    here: OneMachine, promoted: str
) -> None:
    repository = here.here.repository
    old = here.workspace(promoted, "shop-prod").status.observed_revision
    repository.release("2.2.0")
    bad = repository.break_module("staging")
    try:
        announce(here, promoted, bad)
        halted = wait_rollout(here, promoted, Reason.STEP_FAILED)
        assert halted.status.phase is Phase.FAILED
        assert halted.status.current_step == 1
        assert "[staging]: shop-staging Failed/PlanFailed" in halted.status.message
        assert "[prod]" in halted.status.message, "it is said who waits"
        assert here.workspace(promoted, "shop-dev").status.observed_revision == bad
        prod = here.workspace(promoted, "shop-prod").status
        assert (prod.phase, prod.reason) == (Phase.PENDING, Reason.AWAITING_ROLLOUT)
        assert prod.observed_revision == old
        assert "Rollout" in prod.message
    finally:
        good = repository.repair_module("staging")
    announce(here, promoted, good)
    for name in MEMBERS:
        here.wait(promoted, name, lambda w: w.status.phase is Phase.APPLIED and w.status.observed_revision == good)
    wait_rollout(here, promoted, Reason.ROLLOUT_COMPLETED)
    applied = {here.workspace(promoted, name).status.observed_revision for name in MEMBERS}
    assert applied == {good}
