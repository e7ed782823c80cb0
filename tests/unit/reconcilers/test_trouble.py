"""The condition ``ApiTrouble``: what the decision wants stays, and so does the version it was judged by."""

from datetime import UTC, datetime

from msgspec.structs import replace

from magos.api.conditions import ConditionType, find
from magos.api.meta import ObjectMeta
from magos.api.project import PROJECTS, Project, ProjectSpec, ProjectStatus
from magos.reconcilers.statuses import status_patch
from magos.reconcilers.trouble import show_trouble
from magos.runtime.decision import Decision, Trouble

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TROUBLE = Trouble(since=NOW, message="create Job n/j: InternalError: a webhook is down")


def project(version: str, message: str = "") -> Project:
    meta = ObjectMeta(name="p", namespace="n", uid="u", generation=1, resource_version=version)
    return Project(metadata=meta, spec=ProjectSpec(), status=ProjectStatus(message=message))


def test_a_status_that_was_judged_on_a_newer_version_keeps_it() -> None:
    cached, live = project("1"), project("2")
    judged = status_patch(PROJECTS, live, replace(live.status, message="m"))
    status = show_trouble(Decision(status=judged), PROJECTS, cached, TROUBLE, NOW).status
    assert status is not None
    assert (status.resource_version, status.observed, status.desired.message) == ("2", live.status, "m")
    assert find(status.desired.conditions, ConditionType.API_TROUBLE) is not None


def test_a_decision_without_a_status_gets_one_and_loses_it_when_the_trouble_is_over() -> None:
    shown = show_trouble(Decision(), PROJECTS, project("1"), TROUBLE, NOW).status
    assert shown is not None
    after = replace(project("2"), status=shown.desired)
    assert show_trouble(Decision(), PROJECTS, after, TROUBLE, NOW) == Decision()
    healed = show_trouble(Decision(), PROJECTS, after, None, NOW).status
    assert healed is not None
    assert find(healed.desired.conditions, ConditionType.API_TROUBLE) is None
    assert show_trouble(Decision(), PROJECTS, project("1"), None, NOW) == Decision()
