"""Carries out decisions: the only place that writes objects (leases and Events have their own writers).

Promises, besides the order rule that stands in ``decision.py``:

1. No request is sent for what is so already, and no write without its precondition.
2. ``still_leading`` is asked synchronously before every write, and by the transport again where the bytes leave; once
   it says no, nothing is written any more.
3. The first step that fails ends the decision. The result says how, as one of the six ways in ``endings.py``; no
   exception of the API client gets out.
4. Each step is idempotent: the process may die before or after any of them.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, assert_never

import structlog
from msgspec import Struct

from magos.api.meta import ObjectMeta, Resource, controller_of
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import Clock
from magos.runtime.controller.endings import Applied, End, Stop, judge, refused
from magos.runtime.controller.ledger import Ledger, Target
from magos.runtime.controller.mergepatch import merge_patch
from magos.runtime.controller.view import Caches
from magos.runtime.decision import (
    AddFinalizer,
    Create,
    Decision,
    Delete,
    Effect,
    Event,
    PatchAnnotations,
    Release,
    RemoveFinalizer,
    StatusPatch,
    Unchanged,
)
from magos.runtime.resourceversion import is_older

CONFIRM_EVERY = 0.1
"""Seconds for which the API server's word about a condition of repeated writes is good."""

_log = structlog.get_logger(__name__)


class Step(Struct, frozen=True):
    """One crash point: the status (index -1) or the effect at ``index`` of the decision."""

    index: int
    action: StatusPatch | Effect


class StepObserver(Protocol):
    """Follows each step; what it raises ends the decision as if the process had died."""

    def before(self, step: Step) -> None:
        """Nothing of the step has been done."""
        ...

    def after(self, step: Step) -> None:
        """The step is done and acknowledged; what follows is not."""
        ...


class _Unobserved:
    def before(self, step: Step) -> None:
        """Do nothing."""

    def after(self, step: Step) -> None:
        """Do nothing."""


class Executor:
    """See the module. ``emit`` takes the Events; it must neither wait nor fail."""

    def __init__(
        self,
        client: ApiClient,
        caches: Caches,
        *,
        clock: Clock,
        still_leading: Callable[[], bool],
        emit: Callable[[Event], None],
        observer: StepObserver | None = None,
    ) -> None:
        self._client = client.on(may_write=still_leading)
        self._caches = caches
        self._clock = clock
        self._still_leading = still_leading
        self._emit = emit
        self._observer: StepObserver = observer or _Unobserved()

    async def apply(self, decision: Decision) -> Applied:
        """Carry out status, effects and events in this order."""
        ledger = Ledger(self._caches, confirmed_at=self._clock.monotonic())
        steps: list[StatusPatch | Effect] = [*decision.effects]
        first = 0
        if decision.status is not None:
            steps.insert(0, decision.status)
            first = -1
        try:
            for index, action in enumerate(steps, first):
                step = Step(index, action)
                self._observer.before(step)
                await self._carry_out(action, ledger)
                self._observer.after(step)
        except Stop as stop:
            return Applied(
                end=stop.end,
                writes=tuple(ledger.writes),
                refusal=stop.refusal,
                message=str(stop),
                retry_after=stop.wait,
            )
        except Exception as error:  # noqa: BLE001 - reported as an end, like every other failure
            # A bug. What was written before it still counts, or the next pass would judge without seeing it.
            _log.exception("effect raised", outcome=decision.outcome)
            return Applied(end=End.FAILED, writes=tuple(ledger.writes), message=f"{type(error).__name__}: {error}")
        for event in decision.events:
            self._emit(event)
        return Applied(writes=tuple(ledger.writes))

    async def _carry_out(self, action: StatusPatch | Effect, ledger: Ledger) -> None:
        target = _target(action)
        try:
            match action:
                case StatusPatch():
                    await self._patch_status(action, target, ledger)
                case Create():
                    await self._create(action, target, ledger)
                case Delete():
                    await self._delete(action, target, ledger)
                case PatchAnnotations():
                    await self._patch_annotations(action, target, ledger)
                case Release():
                    await self._release(action, target, ledger)
                case AddFinalizer() | RemoveFinalizer():
                    await self._edit_finalizers(action, target, ledger)
                case _:
                    assert_never(action)
        except ApiError as error:
            if not error.unknown_outcome:
                self._fence()  # what was not sent for this reason is neither transient nor refused
            raise judge(error, action, target, ledger) from error

    def _fence(self) -> None:
        if not self._still_leading():
            raise Stop(End.FENCED, "this process is not the leader any more")

    async def _patch_status(self, action: StatusPatch, target: Target, ledger: Ledger) -> None:
        patch = merge_patch(action.observed, action.desired)
        if patch is None:
            return
        version = ledger.expected(target, action.resource_version)
        body = {"metadata": {"resourceVersion": version}, "status": patch}
        self._fence()
        stored: Resource = await self._client.patch(*target, body, subresource="status")
        ledger.wrote(target, stored, conditional_on=version)

    async def _create(self, action: Create, target: Target, ledger: Ledger) -> None:
        if action.unchanged is not None:
            await self._require(action.unchanged, ledger)
        self._fence()
        stored: Resource
        try:
            stored = await self._client.create(action.kind, action.manifest)
        except ApiError as error:
            if not error.already_exists:
                raise
            stored = await self._occupant(action, target, ledger)
            if not _is_same(action, stored.metadata):
                raise refused(action, error) from error
        ledger.wrote(target, stored)

    async def _occupant(self, action: Create, target: Target, ledger: Ledger) -> Resource:
        """Return what has the name that the creation wanted."""
        try:
            occupant: Resource = await self._client.get(*target)
        except ApiError as error:
            if not error.not_found:
                raise
            ledger.unclear(target)
            raise Stop(End.CONFLICT, f"{action.kind.ref(*target[1:])} was in the way and is gone now") from error
        return occupant

    async def _require(self, condition: Unchanged, ledger: Ledger) -> None:
        """Read the object past every cache and stop unless it is as the pass judged it."""
        target = Target(condition.kind, condition.namespace, condition.name)
        expected = ledger.expected(target, condition.resource_version)
        found = ""
        try:
            live: Resource = await self._client.get(*target)
            found = live.metadata.resource_version
        except ApiError as error:
            if not error.not_found:
                raise
        if found != expected:
            ledger.unclear(target)
            change = "has changed since it was judged" if expected else "exists now"
            raise Stop(End.CONFLICT, f"{condition.kind.ref(*target[1:])} {change if found else 'is gone'}")

    async def _confirm(self, conditions: Sequence[Unchanged], ledger: Ledger) -> None:
        """Stop unless all conditions hold: by the caches, and by the API server if it was not asked lately."""
        now = self._clock.monotonic()
        if now < ledger.confirmed_at + CONFIRM_EVERY and all(self._held(each, ledger) for each in conditions):
            return
        for each in conditions:
            await self._require(each, ledger)
        ledger.confirmed_at = now

    def _held(self, condition: Unchanged, ledger: Ledger) -> bool:
        """Tell whether the caches show nothing else; they may lag behind, but not run ahead of what was judged."""
        target = Target(condition.kind, condition.namespace, condition.name)
        cache = self._caches.find(condition.kind.resource)
        held = None if cache is None else cache.get(*target[1:])
        if held is None or not condition.resource_version:
            return held is None and not condition.resource_version
        return not is_older(ledger.expected(target, condition.resource_version), held.metadata.resource_version)

    async def _delete(self, action: Delete, target: Target, ledger: Ledger) -> None:
        known = ledger.known(target)
        last = ObjectMeta(uid=action.uid) if known is None or known.metadata.uid != action.uid else known.metadata
        if not last.resource_version and ledger.is_watched(target):
            # The cache was never shown it, and may still be shown it after its end: it has to get past this version.
            live = await self._live(target, action.uid)
            if live is None:
                return
            last = live.metadata
        self._fence()
        try:
            await self._client.delete(*target, uid=action.uid, propagation=action.propagation)
        except ApiError as error:
            if error.unknown_outcome:
                ledger.perhaps_deleted(target, last)
            if not (error.not_found or (error.conflict and await self._live(target, action.uid) is None)):
                raise
        ledger.deleted(target, last)

    async def _live(self, target: Target, uid: str) -> Resource | None:
        """Return the object with this UID as it is now, None if it is not there any more."""
        try:
            live: Resource = await self._client.get(*target)
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return live if live.metadata.uid == uid else None

    async def _patch_annotations(self, action: PatchAnnotations, target: Target, ledger: Ledger) -> None:
        version = ledger.expected(target, action.resource_version) if action.resource_version else ""
        known = ledger.known(target)
        if known is not None and (current := known.metadata).uid == action.uid:
            as_judged = version in ("", current.resource_version)
            if as_judged and all(current.annotations.get(key) == value for key, value in action.annotations.items()):
                return
        if action.unchanged:
            await self._confirm(action.unchanged, ledger)
        metadata: dict[str, Any] = {"uid": action.uid, "annotations": dict(action.annotations)}
        if version:
            metadata["resourceVersion"] = version
        self._fence()
        stored: Resource = await self._client.patch(*target, {"metadata": metadata})
        ledger.wrote(target, stored, conditional_on=version)

    async def _release(self, action: Release, target: Target, ledger: Ledger) -> None:
        await self._require(action.unchanged, ledger)
        version = ledger.expected(target, action.resource_version)
        meta = {"uid": action.uid, "resourceVersion": version, "annotations": dict(action.annotations)}
        self._fence()
        stored: Resource = await self._client.patch(*target, {"metadata": meta, "spec": {"suspend": False}})
        ledger.wrote(target, stored, conditional_on=version)

    async def _edit_finalizers(self, action: AddFinalizer | RemoveFinalizer, target: Target, ledger: Ledger) -> None:
        # A list is written as a whole, so what the others put there must be known as of exactly this version.
        version = ledger.expected(target, action.resource_version)
        known = ledger.known(target)
        removing = isinstance(action, RemoveFinalizer)
        if known is None or known.metadata.resource_version != version:
            try:
                known = await self._client.get(*target)
            except ApiError as error:
                if removing and error.not_found:
                    return
                raise
        current = known.metadata.finalizers
        if (action.finalizer in current) is not removing:
            return
        if known.metadata.resource_version != version:
            ledger.unclear(target)
            raise Stop(End.CONFLICT, f"{target.kind.ref(*target[1:])} has changed since it was judged")
        others = [each for each in current if each != action.finalizer]
        wanted = others if removing else [*others, action.finalizer]
        self._fence()
        body = {"metadata": {"resourceVersion": version, "finalizers": wanted}}
        stored: Resource = await self._client.patch(*target, body)
        ledger.wrote(target, stored, conditional_on=version)


def _target(action: StatusPatch | Effect) -> Target:
    if isinstance(action, Create):
        meta = _manifest_meta(action)
        return Target(action.kind, meta.namespace, meta.name)
    return Target(action.kind, action.namespace, action.name)


def _manifest_meta(action: Create) -> ObjectMeta:
    meta = action.manifest.metadata
    if not isinstance(meta, ObjectMeta) or not meta.name:
        raise TypeError(f"a {action.kind.name} to be created needs ObjectMeta with a name of its own")
    return meta


def _is_same(action: Create, found: ObjectMeta) -> bool:
    """Tell whether the object under our name is the one we wanted to create: owner UID and identity labels decide."""
    wanted = _manifest_meta(action)
    ours, theirs = controller_of(wanted), controller_of(found)
    if ours is None and not action.identity:
        return False  # nothing would tell it from a stranger's
    same_owner = (ours.uid if ours else None) == (theirs.uid if theirs else None)
    return same_owner and all(found.labels.get(label) == wanted.labels.get(label) for label in action.identity)
