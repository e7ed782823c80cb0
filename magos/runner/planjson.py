"""Counts what a plan would do, from its JSON form (format version 1 of ``show -json``).

"Has changes" follows the tools' own ``-detailed-exitcode``: a move, an import, a deferred read or a changed output
count, though none of them adds to the numbers of resources.
"""

import msgspec

from magos.api.result import PlannedChanges


class _Change(msgspec.Struct):
    actions: tuple[str, ...] = ()
    importing: object = None


class _ResourceChange(msgspec.Struct):
    change: _Change
    previous_address: str | None = None


class _Plan(msgspec.Struct):
    format_version: str
    resource_changes: tuple[_ResourceChange, ...] = ()
    output_changes: dict[str, _Change] = {}


class PlanContent(msgspec.Struct, frozen=True):
    """What the plan would do."""

    changes: PlannedChanges
    has_changes: bool


def read_plan_json(content: bytes) -> PlanContent:
    """Return what the plan would do; ``ValueError`` if ``content`` is no plan of format version 1."""
    plan = msgspec.json.decode(content, type=_Plan)
    if plan.format_version.partition(".")[0] != "1":
        raise ValueError(f"the plan has format version {plan.format_version}, known is 1")
    actions = [resource.change.actions for resource in plan.resource_changes]
    return PlanContent(
        changes=PlannedChanges(
            add=sum("create" in each for each in actions),
            change=sum("update" in each for each in actions),
            destroy=sum("delete" in each for each in actions),
        ),
        has_changes=any(_is_change(resource) for resource in plan.resource_changes)
        or any(set(change.actions) - {"no-op"} for change in plan.output_changes.values()),
    )


def _is_change(resource: _ResourceChange) -> bool:
    change = resource.change
    return bool(
        set(change.actions) - {"no-op"} or resource.previous_address is not None or change.importing is not None
    )
