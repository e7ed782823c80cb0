"""What pages say of Workspaces, Rollouts, sets and logs."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from magos.api.names import JobType
from magos.api.phases import Phase
from magos.api.rollout import Rollout
from magos.api.workspace import Source, Workspace
from magos.explain import explain
from magos.ids import RunID
from magos.ui import links, logs, rollouts, variablesets
from magos.ui.progress import StepState, timeline
from magos.ui.settings import GUIDES
from magos.ui.shell import mark
from magos.ui.svg import MOST_NODES, Node, grouped
from magos.ui.workspace import Choices, Rights, Surroundings, WorkspaceView, view
from tests.pages import states

BY_NAME = {each.metadata.name: each for each in states.all_workspaces()}


def test_the_guides_that_the_settings_name_are_those_that_there_are() -> None:
    folder = Path(__file__).parents[3] / "docs/guides"
    there = {each.name: each.read_text("utf-8").partition("\n")[0].removeprefix("# ") for each in folder.glob("*.md")}
    assert dict(GUIDES) == there


def _view(name: str, rights: Rights | None = None, **choices: Any) -> WorkspaceView:
    subject = BY_NAME[name]
    around = Surroundings(
        project=None,
        account=explain(subject, None, None, states.NOW),
        rights=rights or Rights(),
        runs=states.runs(),
        now=states.NOW,
    )
    return view(subject, around, Choices(**choices))


def _refused(name: str, rights: Rights | None = None) -> dict[str, str]:
    return {each.key: each.refused for each in _view(name, rights).actions}


def test_buttons_are_open_where_something_can_be_done_and_else_say_why() -> None:
    assert _refused("shop-prod") == {"a": "", "r": ""}
    assert _refused("shop-dev") == {"a": "No plan waits for an approval.", "r": ""}
    assert _refused("pay-dev") == {"a": "No plan waits for an approval.", "r": "Not now: a plan runs."}
    assert _refused("fresh")["r"] == "Not now: its controller has not seen it yet."
    rights = Rights(reconcile="jane may not patch workspaces in shop.", approve="jane may not approve.")
    assert _refused("shop-prod", rights) == {"a": rights.approve, "r": rights.reconcile}


def test_the_dialog_shows_exactly_the_run_that_waits_with_its_violations() -> None:
    dialog = _view("pay-prod", dialog="approve").approve
    assert dialog is not None
    assert (dialog.run_id, len(dialog.violations)) == (states.RUN, 2)
    assert dialog.commit is not None
    assert dialog.commit.full == states.COMMIT
    assert dialog.digest.startswith("sha256:")


def test_the_console_of_another_phase_or_run_is_another_one() -> None:
    subject = BY_NAME["pay-dev"]
    around = Surroundings(
        project=None, account=explain(subject, None, None, states.NOW), rights=Rights(), runs=(), now=states.NOW
    )
    status = subject.status
    others = [replace(status, phase=Phase.APPLYING), replace(status, current_run_id=RunID("20261201T115900-ffffffff"))]
    shown = [subject, *(replace(subject, status=each) for each in others)]
    assert len({view(each, around, Choices()).console for each in shown}) == 3


def test_every_set_of_versions_has_its_mark_in_whatever_order() -> None:
    assert mark(["12", "9"]) == mark(["9", "12"])
    assert len({mark(each) for each in ([], ["1"], ["2"], ["1", "2"], ["2", "3"], ["12"], ["21"])}) == 7


def test_no_dialog_opens_where_nothing_waits_and_the_page_says_so() -> None:
    shown = _view("shop-dev", dialog="approve")
    assert shown.approve is None
    assert shown.problem == "No plan of this Workspace waits for an approval any more."


def test_a_reconcile_names_the_run_whose_plan_it_discards() -> None:
    assert _view("shop-prod", dialog="reconcile").discards == states.RUN
    assert _view("shop-dev", dialog="reconcile").discards == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pay-dev", "done active open open open"),
        ("shop-prod", "done done done waiting open"),
        ("pay-prod", "done done failed waiting open"),
        ("pay-staging", "done done skipped skipped active"),
        ("shop-dev", "done done done skipped done"),
        ("dns", "done done skipped skipped skipped"),
        ("shop-staging", "done failed open open open"),
        ("network", "done done failed open open"),
        ("cluster", "active open open open open"),
        ("fresh", "open open open open open"),
    ],
)
def test_the_steps_of_a_run_say_what_is_proved(name: str, expected: str) -> None:
    assert " ".join(str(step.state) for step in timeline(BY_NAME[name], None, states.NOW)) == expected


def test_a_live_log_is_offered_only_while_something_runs() -> None:
    streams = {name: _view(name).live_log for name in BY_NAME}
    assert {name: path.rpartition("=")[2] for name, path in streams.items() if path} == {
        "pay-dev": "plan",
        "pay-staging": "apply",
    }


@pytest.mark.parametrize(
    ("url", "shown", "link"),
    [
        ("https://github.com/a/b.git", "github.com/a/b", "https://github.com/a/b"),
        ("git@github.com:a/b.git", "github.com/a/b", "https://github.com/a/b"),
        (
            "https://token:x-oauth@gitlab.example.org/a/b.git",
            "gitlab.example.org/a/b",
            "https://gitlab.example.org/a/b",
        ),
        ("ssh://git@git.example.org:22/a/b", "git.example.org/a/b", ""),
        ("javascript:alert(1)", "javascript/alert(1)", ""),
        ("https://[bad", "https://[bad", ""),
    ],
)
def test_a_repository_is_shown_without_credentials_and_linked_where_that_is_safe(
    url: str, shown: str, link: str
) -> None:
    found = links.repository(Source(repo_url=url, target_revision="main"))
    assert (found.shown, found.url) == (shown, link)


def test_a_commit_is_a_link_only_if_it_is_one() -> None:
    source = Source(repo_url="https://github.com/a/b.git", target_revision="main")
    known, odd = links.commit(source, states.COMMIT), links.commit(source, "../../x")
    assert known is not None
    assert known.url == f"https://github.com/a/b/commit/{states.COMMIT}"
    assert odd is not None
    assert odd.url == ""


def test_a_rollout_draws_its_commit_once_at_the_active_step() -> None:
    rollout = states.all_rollouts()[0]
    members = [each for each in states.all_workspaces() if each.spec.project_ref.name == "shop"]
    shown = rollouts.view(rollout, members, states.NOW)
    assert [step.travelling is not None for step in shown.steps] == [False, True, False]
    assert [step.state for step in shown.steps] == ["done", "active", "waiting"]
    assert shown.steps[1].waits == "Halted: shop-staging failed."
    assert shown.steps[1].members[0].message.startswith("Error: Unsupported argument")
    assert not shown.unselected


def test_members_of_no_step_and_a_selector_that_is_nonsense_are_shown() -> None:
    item = dict(states.ROLLOUTS[0])
    item["spec"] = {
        "projectRef": "shop",
        "strategy": {"steps": [{"name": "x", "selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}]},
    }
    columns, rest = rollouts.assigned(msgspec.convert(item, Rollout), states.all_workspaces())
    assert columns == [[]]
    assert len(rest) == len(states.WORKSPACES)


def test_a_set_shows_literals_and_never_what_it_refers_to() -> None:
    shown = variablesets.view(states.all_sets()[0], states.all_projects(), states.all_workspaces(), states.NOW)
    values = {each.name: each.value for each in shown.variables}
    assert values == {"region": "eu-central-1", "zones": '["a", "b", "c"]', "db_password": None, "licence": None}
    assert {each.name: each.problem for each in shown.variables if each.problem} == {"db_password": "ResourceNotFound"}
    assert ("Project", "shop") in {(each.kind, each.name) for each in shown.consumers}


def test_a_drawing_of_too_many_workspaces_groups_them_by_state() -> None:
    nodes = [Node(text=f"ws-{index}", tone="ok") for index in range(MOST_NODES + 1)]
    words = ["Applied"] * MOST_NODES + ["Failed"]
    assert [each.text for each in grouped(nodes, words, "/workspaces")] == ["60 Applied", "1 Failed"]
    assert len(grouped(nodes[:MOST_NODES], words[:MOST_NODES], "/x")) == MOST_NODES


def _read(start: int, search: str = "", log: bytes = states.LOG, size: int = 997) -> logs.LogView:
    base = logs.LogView(
        title="", run_path="/r", workspace_path="/w", workspace="w", phase=JobType.PLAN, phases=(), base="/l",
        search=search,
    )  # fmt: skip
    reading = logs.Reading(start, search)
    for at in range(0, len(log), size):
        reading.feed(log[at : at + size])
    return logs.view(base, reading, "/deep")


def test_a_log_opens_at_its_first_error_and_leads_to_all_of_its_lines() -> None:
    shown = _read(0)
    assert shown.first == 388 - 20
    assert any(line.kind == "error" and line.number == 388 for part in shown.parts for line in part.lines)
    assert shown.error.endswith("#L388")
    lines, path = [], "/l?from=1"
    while path:
        page = _read(int(path.partition("from=")[2].partition("&")[0]))
        lines += [line.number for part in page.parts for line in part.lines]
        path = page.later
    assert lines == list(range(1, states.LOG.count(b"\n") + 1))


def test_a_log_without_an_error_opens_at_its_end() -> None:
    shown = _read(0, log=b"\n".join(b"line %d" % index for index in range(1, 1_001)))
    assert (shown.last, shown.total, shown.later) == (1_000, 1_000, "")
    assert shown.first == 1_001 - logs.WINDOW


def test_a_search_counts_in_the_whole_log_and_opens_at_the_first_match() -> None:
    shown = _read(0, "ROUTE.table[29")
    assert shown.matches == 11
    assert any(line.kind == "match" for part in shown.parts for line in part.lines)


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_a_log_reads_the_same_however_its_chunks_are_cut(size: int) -> None:
    assert _read(370, size=size) == _read(370)


def test_a_log_without_line_feeds_takes_bounded_room() -> None:
    shown = _read(0, log=b"x" * (5 << 20), size=1 << 16)
    assert sum(len(line.html) for part in shown.parts for line in part.lines) < 100_000


def test_every_state_of_a_workspace_can_be_drawn() -> None:
    for name in BY_NAME:
        assert isinstance(_view(name), WorkspaceView)
        assert {step.state for step in _view(name).steps} <= set(StepState)
    assert isinstance(BY_NAME["fresh"], Workspace)
