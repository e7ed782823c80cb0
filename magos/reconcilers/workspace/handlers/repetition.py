"""The repetition of a plan that infrastructure ended (spec §6.2.9): a new run that begins by itself after a pause.

1. It is a reset like any other, with the trigger and the request of the run it repeats: it needs permission anew.
2. At most ``MOST_REPETITIONS`` follow each other, with pauses of 30, 60 and 120 s. How many there were and when the
   next one may begin stands in status, so that it counts whoever leads.
3. Anything new, such as a commit, an edit or a request, begins at once and with a fresh count.
4. An apply is never repeated: what it did is not known.
"""

from datetime import timedelta

from msgspec.structs import replace

from magos.api.conditions import shorten
from magos.api.reasons import Reason
from magos.api.timestamps import format_time
from magos.api.triggers import Trigger
from magos.reconcilers.workspace.evidence.interruptions import MOST_REPETITIONS, pause_before, paused_until
from magos.reconcilers.workspace.evidence.triggers import Cause, decidable_cause, higher, named_cause, unconfirmed
from magos.reconcilers.workspace.handlers.recording import interruption
from magos.reconcilers.workspace.handlers.reset import reset
from magos.reconcilers.workspace.move import Move, ask_inputs, keep, warning
from magos.reconcilers.workspace.observation import Observation
from magos.runtime.decision import EventType, Outcome

_ROUNDED_UP = timedelta(microseconds=999_999)


def repeat(seen: Observation, what: str) -> Move | None:
    """Return the reset that repeats the current run, None if there were enough of them in a row.

    ``what`` says what happened, as a clause without a full stop.
    """
    status, done = seen.subject.status, seen.run.interruptions
    ending = interruption(f"Run {seen.run_id} was interrupted: {what}.")
    if not seen.has_run or done >= MOST_REPETITIONS:
        return None
    former, news = status.current_run_trigger or Trigger.UNKNOWN, decidable_cause(seen)
    if news is not None:
        if unconfirmed(seen, news.trigger):
            return ask_inputs(seen)
        return reset(seen, named_cause(higher(former, news.trigger)), ending)
    move = reset(seen, Cause(trigger=former, reason=Reason.INTERRUPTED), ending)
    if move.status is None or move.status.current_run is None:
        return move  # permission goes first
    pause = pause_before(done + 1)
    begins = format_time(seen.now + pause + _ROUNDED_UP)
    run = move.status.current_run
    run = replace(
        run,
        interruptions=done + 1,
        not_before=begins,
        request=run.request or seen.run.request,
        principal=run.principal or seen.run.principal,
    )
    message = (
        f"Run {seen.run_id} was interrupted: {what}; attempt {done + 2} of {MOST_REPETITIONS + 1} begins in"
        f" {pause.seconds} s, at {begins}, as run {move.status.current_run_id}."
    )
    lost = (event for event in move.events if event.type is EventType.WARNING)  # a record that was given up
    desired = replace(move.status, message=shorten(message), current_run=run)
    return replace(move, status=desired, events=(warning(seen, Reason.INTERRUPTED, "Plan", message), *lost))


def wait_for_repetition(seen: Observation) -> Move:
    """Status has said what happened and when it goes on."""
    return keep(seen, again_at=paused_until(seen), outcome=Outcome.WAITING)
