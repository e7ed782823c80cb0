"""Nodes (``core/v1``), as far as the one-machine mode registers one and messages name one."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta


class Taint(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Keeps pods without a matching toleration away."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Taints and the cordon."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeAddress(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """``InternalIP``, ``Hostname``, ..."""

    type: str
    address: str


class NodeCondition(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``Ready`` and the pressures."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class NodeStatus(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Addresses, conditions and sizes (quantities); ``daemon_endpoints`` says where the kubelet listens."""

    addresses: tuple[NodeAddress, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    daemon_endpoints: Mapping[str, Any] = field(default_factory=dict)
    node_info: Mapping[str, Any] = field(default_factory=dict)


class Node(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A Node."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


NODES = Kind(group="", version="v1", plural="nodes", name="Node", type=Node, namespaced=False)
