"""What a reconciler sees and what it answers: the only part of the runtime that reconcilers know.

A reconciler is a total, synchronous, pure function ``(request, view, now) -> Decision``. Nothing here does I/O.

The order rule, which stands here and nowhere else. One decision is carried out as

1. ``status``: the one conditional write of the reconciled object's status;
2. ``effects``, in the order given;
3. ``events``, which are best effort and never stop anything.

The first step that fails ends the pass: nothing behind it is carried out. Therefore

* intent goes to status first, the object it names is created by an effect of the same or a later decision;
* evidence that must exist *before* a status (a result saved on a Job) is written by a decision of its own, whose watch
  event brings the next pass;
* permission is removed behind the status that makes its removal right.

Between any two steps the process may die; each step is idempotent, so the next pass finishes what is left. The steps of
a decision are at the same time the list of crash points that tests enumerate.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from magos.api.meta import Kind, ObjectRef, Resource
from magos.errors import MagosError

R = TypeVar("R", bound=Resource)


class Priority(StrEnum):
    """Why a key is in the queue: a person waits, something changed, or a (re)list replays what is known."""

    USER = "user"
    CHANGE = "change"
    REPLAY = "replay"


class Request(Struct, frozen=True, kw_only=True):
    """The key to reconcile; ``attempt`` counts consecutive failures before this pass (0 = none)."""

    namespace: str
    name: str
    priority: Priority = Priority.CHANGE
    attempt: int = 0


UNREADABLE = "Undecodable"
"""``QueryFailure.reason`` of an answer that holds an object which cannot be decoded."""


class Unreadable(MagosError):
    """The object exists, but its content does not fit what this version of Magos knows.

    It is neither as it was nor gone, and a reconciler may conclude nothing else from it.
    """

    def __init__(self, ref: ObjectRef, problem: str) -> None:
        super().__init__(f"{ref} exists but cannot be read ({problem}): correct or delete it, or update Magos")
        self.ref = ref


class Query(Struct, frozen=True):
    """Base of everything a reconciler may ask the outside world. Queries compare by value and have no side effects.

    A decision with queries is carried out first (status, effects, events), then the queries are answered, then the same
    key is reconciled again immediately, with the answers in its view. An answer lives for exactly that pass, so what a
    reconciler finds in ``view.answer`` has been read after the pass that asked for it and is never older.
    """


class LiveGet(Query, frozen=True):
    """Read one object from the API server itself, past every cache. Value: the object, or None if it does not exist."""

    kind: Kind[Any]
    namespace: str
    name: str


class LiveList(Query, frozen=True):
    """List objects from the API server itself (a consistent read). Value: a tuple of objects."""

    kind: Kind[Any]
    namespace: str
    selector: str = ""


class QueryFailure(Struct, frozen=True, kw_only=True):
    """A query that was answered with a lasting refusal (forbidden, kind not served). Transient errors only back off."""

    reason: str
    message: str


class QueryAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a query: ``value``, or ``failure`` where the answer was a refusal."""

    value: Any = None
    failure: QueryFailure | None = None
    at: datetime


class View(Protocol):
    """A consistent snapshot of the caches plus the answers of this pass. Everything in it is immutable.

    An object that cannot be decoded is never left out silently: what would have to tell of it raises ``Unreadable``.
    A reconciler that lets it pass decides nothing, and its key is tried again after a back-off.
    """

    @property
    def stale(self) -> bool:
        """True if the caches may lack this key's own last writes: then nothing destructive may be decided."""
        ...

    def get(self, kind: Kind[R], namespace: str, name: str) -> R | None:
        """Return the cached object or None."""
        ...

    def list(self, kind: Kind[R], namespace: str | None = None) -> tuple[R, ...]:
        """Return the cached objects of a namespace (None: of all), in the order of their keys."""
        ...

    def by_index(self, kind: Kind[R], index: str, value: str) -> tuple[R, ...]:
        """Return the cached objects that the named index files under ``value``, in the order of their keys."""
        ...

    def answer(self, query: Query) -> QueryAnswer | None:
        """Return the answer to a query asked by the pass just before, None if it was not asked."""
        ...

    @property
    def refusal(self) -> "Refusal | None":
        """The effect of the pass just before that the API server refused for good, if there was one."""
        ...

    @property
    def trouble(self) -> "Trouble | None":
        """Why no pass of this key has come to its end for a while, None if that is not so."""
        ...


class Propagation(StrEnum):
    """``propagationPolicy`` of a deletion."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class _Target(Struct, frozen=True, kw_only=True):
    kind: Kind[Any]
    namespace: str
    name: str


class Unchanged(_Target, frozen=True, kw_only=True):
    """Precondition: an object still has the resourceVersion it was judged by; empty: it still does not exist.

    If the version was moved by this same decision's own writes, the moved version is expected. A difference ends the
    pass as a conflict: nothing is forced. How fresh the answer is, is for the effect to say that carries the condition.
    """

    resource_version: str


class Create(Struct, frozen=True, kw_only=True):
    """Create ``manifest`` under its deterministic name.

    ``AlreadyExists`` is success if the object there has the same controller owner UID and the same values for all
    ``identity`` labels; otherwise it is a ``Refusal`` with reason ``AlreadyExists``.
    """

    kind: Kind[Any]
    manifest: Any
    identity: tuple[str, ...] = ()
    unchanged: Unchanged | None = None
    """Read from the API server right before the creation."""


class Delete(_Target, frozen=True, kw_only=True):
    """Delete the object with exactly this UID; absence and another UID under the name both count as done."""

    uid: str
    propagation: Propagation = Propagation.BACKGROUND


class PatchAnnotations(_Target, frozen=True, kw_only=True):
    """Set (text) or remove (None) single annotations of the object with this UID; everything else is left alone.

    With ``resource_version`` the write is conditional on exactly the judged version (a version moved by this decision's
    own writes follows along). Removing what is absent and setting what is set are dropped without a request.

    ``unchanged`` are the objects that the write was judged by besides. A decision may hold hundreds of such writes, so
    the caches are asked before each of them and the API server at least every 100 ms: a person who changes what
    permission was judged by stops the writes that are left.
    """

    uid: str
    annotations: Mapping[str, str | None]
    resource_version: str = ""
    unchanged: tuple[Unchanged, ...] = ()


class Release(_Target, frozen=True, kw_only=True):
    """Let a suspended Job start: in one write ``spec.suspend`` becomes false and ``annotations`` are set.

    Only the UID and the version that were judged are let go: once or not at all, however late the request is.
    """

    uid: str
    resource_version: str
    annotations: Mapping[str, str]
    unchanged: Unchanged
    """Read from the API server right before the release."""


class AddFinalizer(_Target, frozen=True, kw_only=True):
    """Add one finalizer, conditional on the judged resourceVersion; others keep theirs."""

    resource_version: str
    finalizer: str


class RemoveFinalizer(_Target, frozen=True, kw_only=True):
    """Remove one finalizer, conditional on the judged resourceVersion; others keep theirs. Absence counts as done."""

    resource_version: str
    finalizer: str


Effect: TypeAlias = Create | Delete | PatchAnnotations | Release | AddFinalizer | RemoveFinalizer


class Refusal(Struct, frozen=True, kw_only=True):
    """A lasting refusal of an effect: forbidden, invalid, rejected by quota or admission, or the name is taken.

    It is shown to exactly one pass, which follows at once and must not simply ask again: it says so in status.
    Conflicts of version and transient errors are never shown here; they only back off.
    """

    effect: Effect
    code: int
    reason: str
    message: str


class Trouble(Struct, frozen=True, kw_only=True):
    """Requests of a key's passes fail, or conflict, again and again.

    ``since`` is the wall time of the first failure in a row; ``message`` is the last: verb, object and answer. It is
    shown until a pass comes to its end, which is then followed by one that sees none.
    """

    since: datetime
    message: str


class StatusPatch(_Target, frozen=True, kw_only=True):
    """The status the reconciled object should have: a whole status Struct, written only where it differs.

    The write is a merge patch of the differing fields on the status subresource, conditional on ``resource_version``
    (the version the pass judged). ``observed`` is the status that this version carries, which the difference is taken
    against.
    """

    resource_version: str
    observed: Any
    desired: Any


class EventType(StrEnum):
    """``type`` of a Kubernetes Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Event(Struct, frozen=True, kw_only=True):
    """An Event about an object. Events equal in all but the note are aggregated; the recorder cuts the note to 1 kB."""

    regarding: ObjectRef
    uid: str
    type: EventType
    reason: str
    action: str
    note: str
    api_version: str = ""
    resource_version: str = ""


class Outcome(StrEnum):
    """How a pass ended, as counted in metrics and shown in logs."""

    DONE = "done"
    WAITING = "waiting"
    GONE = "gone"
    INVALID = "invalid"


class Decision(Struct, frozen=True, kw_only=True):
    """All a pass wants. Decisions compare by value, so idempotence is testable: the fixpoint decides nothing.

    ``requeue_at`` schedules the next pass without any event; a pass that returns None cancels what was scheduled.
    ``queries`` are answered after everything else and bring the next pass at once.
    """

    status: StatusPatch | None = None
    effects: tuple[Effect, ...] = ()
    events: tuple[Event, ...] = ()
    queries: tuple[Query, ...] = ()
    requeue_at: datetime | None = None
    outcome: Outcome = Outcome.DONE


Reconciler = Callable[[Request, View, datetime], Decision]
"""``now`` is UTC, whole seconds are not guaranteed."""
