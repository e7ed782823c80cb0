"""Rollout and Workspace together: permission given for one commit starts a run of no other (I7, spec §6.4 rule 8)."""

import pytest
from msgspec.structs import replace

from magos.api.kube import JOBS
from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.project import PROJECTS, Project
from tests.unit.reconcilers.cluster import Cluster
from tests.unit.reconcilers.fleet import PROJECT, Fleet, applied, rollout
from tests.unit.reconcilers.model import NAME, NAMESPACE, OTHER_SHA, SHA, workspace_manifest


class Together:
    """One state under both controllers; ``NAME`` is in step prod behind ``d``, which has applied ``SHA``."""

    def __init__(self) -> None:
        made = workspace_manifest(NAME)
        prod = replace(made, metadata=replace(made.metadata, labels={"stage": "prod"}))
        self.rollout = Fleet(rollout("dev", "prod"), [applied("d", "dev"), prod])
        self.workspace = Cluster()
        self.workspace.state = self.rollout.state
        self.workspace.versions = 1000  # so that no version is given twice
        self.workspace.put(PROJECTS, Project(metadata=ObjectMeta(name=PROJECT, namespace=NAMESPACE)))

    def detect(self, revision: str) -> None:
        self.workspace.annotate(detected_revision=revision)

    def settle(self) -> None:
        for _ in range(3):
            self.workspace.settle()
            self.rollout.settle()
        self.workspace.settle()


@pytest.mark.parametrize("begun", [False, True], ids=["no run yet", "a run without a known commit"])
def test_a_commit_that_follows_a_grant_is_not_started_by_it(begun: bool) -> None:
    both = Together()
    if begun:
        both.workspace.settle()
    both.detect(SHA)
    both.rollout.settle()  # the workspace controller is away for a moment: a restart, a change of leader
    both.detect(OTHER_SHA)
    both.settle()
    assert both.workspace.all(JOBS) == []
    run = both.workspace.workspace.status.current_run
    assert run is not None
    assert run.revision == OTHER_SHA
    assert f"revision {OTHER_SHA} not yet applied by d" in both.rollout.rollout.status.message
    both.rollout.set(applied("d", "dev", OTHER_SHA))
    both.settle()
    assert len(both.workspace.created_jobs) == 1


def test_a_member_that_is_only_prepared_later_is_told_and_then_granted() -> None:
    both = Together()
    both.detect(SHA)
    both.rollout.settle()
    assert both.rollout.allowed == set()
    waits = f"{NAME} waits: the workspace controller has not recorded revision {SHA} for its run yet"
    assert waits in both.rollout.rollout.status.message
    both.workspace.settle()
    both.rollout.settle()
    assert both.rollout.allowed == {NAME}


def test_where_nobody_is_before_it_a_member_is_granted_as_soon_as_it_has_a_run() -> None:
    both = Together()
    both.rollout.edit_steps("prod", "dev")
    both.rollout.settle()
    assert both.rollout.allowed == set()
    both.workspace.settle()
    assert both.workspace.workspace.status.phase is Phase.PENDING
    both.rollout.settle()
    assert both.rollout.allowed == {NAME}
