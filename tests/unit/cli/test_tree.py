"""The tree of a Project, and where it comes from."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from magos.api.meta import ObjectMeta
from magos.api.phases import Phase
from magos.api.project import Project
from magos.api.rollout import ROLLOUTS, RolloutSpec, RolloutStep, RolloutStrategy
from magos.api.selectors import LabelSelector
from magos.api.status import CommonStatus
from magos.api.workspace import Workspace
from magos.cli.main import main
from magos.cli.session import Session
from magos.cli.tree import phase_and_reason, project_tree, rollout_tree
from tests.unit.cli.objects import workspace
from tests.unit.cli.shop import Shop
from tests.unit.explain.objects import rollout, with_meta


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


def test_an_unreachable_cluster_is_an_error_that_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    with pytest.raises(SystemExit) as ended:
        main(["tree", "shop"], Session(environ={"KUBECONFIG": str(path)}))
    assert ended.value.code == 1
    assert "127.0.0.1:9" in capsys.readouterr().err


def _member(stage: str, phase: Phase, message: str = "") -> Workspace:
    return with_meta(workspace(stage, phase, "Because", message), namespace="team-a", labels={"stage": stage})


def test_a_rollout_stands_between_a_project_and_its_workspaces_with_its_steps() -> None:
    members = [_member("prod", Phase.PENDING, "waits"), _member("dev", Phase.APPLIED), _member("lost", Phase.APPLIED)]
    found = rollout(1, "dev", "eu", "prod", reason="LevelProgressing", message="Step eu of 3: running.")
    assert project_tree("shop", None, members, found).splitlines() == [
        "Project shop  (does not exist)",
        "└─ Rollout shop  Reconciling/LevelProgressing",
        "         Step eu of 3: running.",
        "   ├─ Step dev (1 of 3)  done",
        f"   │  └─ ✔ Workspace dev          {'Applied/Because':<28} revision -  env/dev",
        "   ├─ Step eu (2 of 3)  active",
        "   │  └─ (no Workspace)",
        "   ├─ Step prod (3 of 3)  waits",
        f"   │  └─ … Workspace prod         {'Pending/Because':<28} revision -  env/prod",
        "   │        waits",
        "   └─ (in no step: these never run)",
        f"      └─ ✔ Workspace lost         {'Applied/Because':<28} revision -  env/lost",
    ]


def test_the_steps_of_a_rollout_that_cannot_be_read_do_not_hide_its_workspaces() -> None:
    odd = RolloutStep(name="odd", selector=LabelSelector(match_labels={"a b": "c"}))
    broken = replace(rollout(0), spec=RolloutSpec(project_ref="shop", strategy=RolloutStrategy(steps=(odd,))))
    text = rollout_tree(broken, [_member("dev", Phase.APPLIED)])
    assert "step [odd] is invalid" in text
    assert "Workspace dev" in text
    assert rollout_tree(rollout(0), []).splitlines()[1] == "└─ (no steps: no Workspace runs)"


def test_the_tree_is_read_from_the_cluster(shop: Shop) -> None:
    shop.has(_member("dev", Phase.APPLIED))
    assert shop("tree", "shop").out.splitlines()[0] == "Project shop  (does not exist)"
    shop.put(ROLLOUTS, rollout(0, "dev", reason="LevelProgressing"))
    assert "Step dev (1 of 1)  active" in shop("tree", "team-a/shop").out
    assert "Step dev (1 of 1)  active" in shop("rollout", "status", "shop").out
    missing = shop("rollout", "status", "other")
    assert (missing.code, "Rollout team-a/other" in missing.err) == (3, True)
