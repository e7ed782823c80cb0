"""What every Kubernetes object has in common, and how a kind is described.

The Structs are frozen and hold no cycles, so they are invisible to the garbage collector (``gc=False``) and may be
shared freely without copies. ``managedFields`` are deliberately not declared: they are half of an
object's size and nothing here reads them. Source: Kubernetes API conventions.
"""

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar, runtime_checkable

from msgspec import Struct, field

ConditionStatus = str
"""``"True"``, ``"False"`` or ``"Unknown"``."""


class OwnerReference(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``metadata.ownerReferences[]``; the garbage collector follows ``uid``, never the name."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``metadata`` of an object, without ``managedFields``; times are RFC 3339 texts as the server sends them."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class ListMeta(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``metadata`` of a list; ``continue_`` is the token of the next page, empty on the last."""

    resource_version: str = ""
    continue_: str = field(default="", name="continue")
    remaining_item_count: int | None = None


class Condition(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """A standard condition (``metav1.Condition``)."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    last_transition_time: str
    observed_generation: int = 0


@runtime_checkable
class Resource(Protocol):
    """Anything with object metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


R = TypeVar("R", bound=Resource)


class Kind(Struct, Generic[R], frozen=True, kw_only=True):
    """One kind of object as one of our processes sees it: its address at the API server and the type it is decoded to.

    ``type`` declares only the fields we read; the rest is skipped while decoding. ``metadata_only`` asks the server for
    ``PartialObjectMetadata`` and is the only way in which Secrets may be watched.
    """

    group: str
    version: str
    plural: str
    name: str
    type: type[R]
    namespaced: bool = True
    metadata_only: bool = False

    @property
    def api_version(self) -> str:
        """``apiVersion`` as written in manifests: ``v1`` or ``<group>/<version>``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """``<plural>.<group>``: how kubectl and RBAC messages name the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def ref(self, namespace: str, name: str) -> "ObjectRef":
        """Return the reference to one object of this kind."""
        return ObjectRef(kind=self.name, plural=self.plural, group=self.group, namespace=namespace, name=name)


class ObjectRef(Struct, frozen=True, gc=False, kw_only=True):
    """Names one object for humans and as a key; not a promise that the object exists."""

    kind: str
    plural: str
    group: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """``Workspace team-a/network``, the form used in every message."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the one owner reference that is marked as controller, if there is one."""
    return next((owner for owner in meta.owner_references if owner.controller), None)
