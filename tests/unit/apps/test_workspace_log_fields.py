"""What the workspace controller's log lines tell about the object that they are about (spec §12.2)."""

from magos.api.phases import Phase
from magos.api.reasons import Reason
from magos.api.workspace import WorkspaceStatus
from magos.apps.workspace import log_fields


def test_lines_about_a_workspace_name_its_run() -> None:
    status = WorkspaceStatus(
        phase=Phase.PLANNING, reason=str(Reason.PLANNING), current_run_id="20260102T030405-00000001"
    )
    assert log_fields(status) == {"run_id": "20260102T030405-00000001", "phase": "Planning", "reason": "Planning"}


def test_before_the_first_run_there_is_nothing_to_tell() -> None:
    assert log_fields(WorkspaceStatus()) == {}
