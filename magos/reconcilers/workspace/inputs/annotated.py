"""What people and other components ask of a Workspace by annotation, parsed once (spec §5.1).

An unparsable value is replaced by the default, one out of range by its bound, and becomes a ``problems`` entry that
names key, value and replacement; nothing is ever ignored in silence.
"""

from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from magos.api import annotations
from magos.durations import format_duration, parse_duration

DIRECT_EDIT = "direct edit (unverified)"
"""Stands for whoever annotated the Workspace, where nothing proves who it was (spec §5.1)."""

DEFAULT_INTERVAL = timedelta(minutes=3)
"""Time between two ticks of the schedule where no annotation says another."""

_POLL_DEFAULT = "RefWatcher's default"
"""What it is, a flag of another process says."""

_SHOWN = 80
_LONGEST_PRINCIPAL = 253


class Annotated(Struct, frozen=True, kw_only=True):
    """The settings in force; ``request`` is the reconcile request, empty if there is none.

    ``printed`` is the interval as status shows it.
    """

    interval: timedelta
    printed: str
    log_level: str
    request: str
    problems: tuple[str, ...]


def read_annotations(values: Mapping[str, str]) -> Annotated:
    """Return what the annotations of a Workspace say."""
    texts = (
        values.get(annotations.RECONCILE_INTERVAL),
        values.get(annotations.GIT_POLL_INTERVAL),
        values.get(annotations.TF_LOG_LEVEL, ""),
    )
    request = annotations.reconcile_request(values)
    settings = _remembered(*texts) if all(len(text or "") <= _SHOWN for text in texts) else _read(*texts)
    return replace(settings, request=request) if request else settings


@lru_cache(maxsize=1024)
def _remembered(interval_text: str | None, poll_text: str | None, level: str) -> Annotated:
    """Every pass asks several times, and most Workspaces say the same: nothing. Only short texts are kept."""
    return _read(interval_text, poll_text, level)


def _read(interval_text: str | None, poll_text: str | None, level: str) -> Annotated:
    problems: list[str] = []
    default, floor = format_duration(DEFAULT_INTERVAL), annotations.MINIMUM_RECONCILE_INTERVAL
    interval = _duration(annotations.RECONCILE_INTERVAL, interval_text, default, floor, problems) or DEFAULT_INTERVAL
    # The poll interval is RefWatcher's; here it is only checked, because the condition belongs to this controller.
    _duration(annotations.GIT_POLL_INTERVAL, poll_text, _POLL_DEFAULT, annotations.MINIMUM_POLL_INTERVAL, problems)
    if level and level not in set(annotations.TerraformLogLevel):
        allowed = ", ".join(annotations.TerraformLogLevel)
        problems.append(f"{annotations.TF_LOG_LEVEL}: {_show(level)} is none of {allowed}; TF_LOG is not set")
        level = ""
    return Annotated(
        interval=interval,
        printed=format_duration(interval),
        log_level=level,
        request="",
        problems=tuple(problems),
    )


def principal_of(values: Mapping[str, str], request: str) -> str:
    """Return who asked by ``request``: ``mp/requested-by`` counts only for exactly this request.

    A request without it was written by hand; without a request a run is automatic and nobody asked for it.
    """
    if not request:
        return ""
    return _principal(values.get(annotations.REQUESTED_BY, ""), "request", request) or DIRECT_EDIT


def approved_by(values: Mapping[str, str], run_id: str) -> str:
    """Return who approved ``run_id``: ``mp/approved-by`` counts only for exactly this run."""
    return _principal(values.get(annotations.APPROVED_BY, ""), "runID", run_id) or DIRECT_EDIT


def _principal(text: str, key: str, wanted: str) -> str:
    try:
        said = msgspec.json.decode(text, type=dict[str, str]) if text and wanted else {}
    except (msgspec.DecodeError, UnicodeError):
        return ""
    return said.get("principal", "")[:_LONGEST_PRINCIPAL] if said.get(key) == wanted else ""


def _duration(key: str, text: str | None, default: str, floor: timedelta, problems: list[str]) -> timedelta | None:
    """Return the interval in force, None for the default, which ``default`` puts into words."""
    if text is None:
        return None
    try:
        value = parse_duration(text)
    except ValueError:
        problems.append(f"{key}: {_show(text)} is not a duration such as 90s or 1h30m; {default} is used")
        return None
    bound = min(max(value, floor), annotations.MAXIMUM_INTERVAL)
    if bound != value:
        side = "below the minimum" if value < floor else "above the maximum"
        problems.append(f"{key}: {_show(text)} is {side}; {format_duration(bound)} is used")
    return bound


def _show(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
