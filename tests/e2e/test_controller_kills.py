"""Killing controllers at any time changes nothing about how a run ends."""

import random
from collections import Counter

import pytest

from magos.api.phases import Phase
from magos.api.workspace import Workspace
from tests.e2e.onemachine import OneMachine


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_run_ends_the_same_however_often_controllers_are_killed(here: OneMachine, namespace: str, seed: int) -> None:
    """Kill at seeded points, counted in versions of the Workspace, so that a seed names the same points again."""
    draw = random.Random(seed)
    points = {point: draw.choice(sorted(here.here.controllers)) for point in draw.sample(range(1, 14), 4)}
    versions = 0
    audit = here.audit
    before = audit.mark()

    def applied(workspace: Workspace) -> bool:
        nonlocal versions
        versions += 1
        if versions in points:
            here.kill(points[versions])
        assert workspace.status.phase is not Phase.FAILED, workspace.status
        return workspace.status.phase is Phase.APPLIED

    here.apply(here.workspace_document(namespace, "survivor"))
    workspace = here.wait(namespace, "survivor", applied, within=240)
    assert workspace.status.observed_revision == here.revision
    created = Counter(
        r.name
        for r in audit.requests(before)
        if (r.verb, r.resource, r.namespace) == ("create", "jobs", namespace) and r.code == 201
    )
    kinds = sorted(name.removeprefix("survivor-").split("-")[0] for name in created)
    assert kinds == ["apply", "plan"], f"one run, one plan Job, one apply Job; got {created}"
    assert set(created.values()) == {1}
    path = here.state_file(namespace, "survivor")
    assert path is not None
    assert '"serial": 1' in path.read_text() or path.read_text().count('"type": "terraform_data"') > 0
