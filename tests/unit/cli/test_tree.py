"""The tree of a Project, and where it comes from."""

import json
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.project import Project
from magos.api.status import CommonStatus
from magos.cli.tree import load_tree, phase_and_reason, project_tree
from magos.runtime.client.errors import ApiError
from tests.unit.cli.objects import workspace


def test_a_workspace_that_is_not_applied_has_its_message_below_it() -> None:
    members = [
        workspace("prod", Phase.FAILED, "Because", "fix the plan"),
        workspace("dev", Phase.APPLIED, "Because", "done", "a" * 40),
    ]
    assert project_tree("shop", Project(metadata=ObjectMeta(name="shop")), members).splitlines() == [
        "Project shop  new",
        f"├─ ✔ Workspace dev          {'Applied/Because':<28} revision aaaaaaa  env/dev",
        f"└─ ✘ Workspace prod         {'Failed/Because':<28} revision -  env/prod",
        "      fix the plan",
    ]


def test_a_missing_project_and_a_project_without_workspaces_say_so() -> None:
    assert project_tree("shop", None, []).splitlines() == [
        "Project shop  (does not exist)",
        "└─ (no Workspace names this Project)",
    ]


@given(st.none() | st.sampled_from(Phase), st.text("ABCabc", max_size=5))
def test_a_state_names_the_phase_and_the_reason_if_there_is_one(phase: Phase | None, reason: str) -> None:
    first, slash, second = phase_and_reason(CommonStatus(phase=phase, reason=reason)).partition("/")
    assert first == (phase or "new")
    assert (slash, second) == (("/", reason) if reason else ("", ""))


def test_an_unreachable_cluster_is_an_error_that_names_it(tmp_path: Path) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    with pytest.raises(ApiError, match=r"127\.0\.0\.1:9"):
        anyio.run(load_tree, {"KUBECONFIG": str(path)}, "", "demo", "shop")
