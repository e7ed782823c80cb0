"""A history for people: a line a record, for the message of a failure."""

from tests.sim.history.records import History, RolloutWritten, WorkspaceWritten

__all__ = ["story"]

_LAST = 60


def story(history: History, last: int = _LAST) -> list[str]:
    """Return the end of the history: when, who, what."""
    lines = []
    for record in history[-last:]:
        text = type(record).__name__
        if isinstance(record, WorkspaceWritten):
            new = record.new
            if new is None:
                text += f" {record.old.metadata.name if record.old is not None else ''} removed"
            else:
                status = new.status
                text += f" {new.metadata.name} {status.phase}/{status.reason} {dict(new.metadata.annotations)}"
        elif not isinstance(record, RolloutWritten):
            text += f" {record.workspace[1]} {getattr(record, 'job_type', '')}"
        lines.append(f"{record.at:10.3f} {record.actor:14} {text}")
    return lines
