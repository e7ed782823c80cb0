"""The four CustomResourceDefinitions: how each kind is named, served and shown by kubectl."""

from collections.abc import Mapping
from typing import Any

import yaml
from msgspec import Struct

from magos.api.meta import Kind
from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.schema.structural import object_schema
from magos.api.status import API_VERSION, GROUP, VERSION
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES

_CATEGORY = "magos"


class Column(Struct, frozen=True):
    """A column of ``kubectl get``; a wide one is shown with ``-o wide`` only."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


class Definition(Struct, frozen=True, kw_only=True):
    """One kind as a CRD."""

    kind: Kind[Any]
    short: str
    columns: tuple[Column, ...]
    selectable: tuple[str, ...] = ()


_PHASE = Column("Phase", ".status.phase")
_READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_MESSAGE = Column("Message", ".status.message", wide=True)

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        kind=PROJECTS, short="mproj", columns=(_PHASE, _READY, Column("Members", ".status.members", "integer"), _AGE)
    ),
    Definition(
        kind=ROLLOUTS,
        short="mro",
        columns=(
            _PHASE,
            _READY,
            Column("Project", ".spec.projectRef"),
            Column("Step", ".status.currentStep", "integer"),
            _AGE,
            _MESSAGE,
        ),
    ),
    Definition(
        kind=VARIABLESETS,
        short="vset",
        columns=(_PHASE, _READY, Column("Variables", ".status.resolvedVariables", "integer"), _AGE),
    ),
    Definition(
        kind=WORKSPACES,
        short="ws",
        columns=(
            _PHASE,
            _READY,
            Column("Project", ".spec.projectRef.name"),
            Column("Revision", ".status.observedRevision"),
            _AGE,
            Column("Run", ".status.currentRunID", wide=True),
            Column("Trigger", ".status.currentRunTrigger", wide=True),
            Column("Next", ".status.nextReconcileTime", wide=True),
            _MESSAGE,
        ),
        selectable=(".spec.projectRef.name",),
    ),
)


def manifest(definition: Definition) -> dict[str, Any]:
    """Return the CustomResourceDefinition as plain data."""
    kind = definition.kind
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in definition.columns],
    }
    if definition.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in definition.selectable]
    version["schema"] = {"openAPIV3Schema": _root(kind.type)}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": kind.resource,
            "labels": {"app.kubernetes.io/name": "magos", "app.kubernetes.io/component": "crds"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "shortNames": [definition.short],
                "categories": [_CATEGORY],
            },
            "versions": [version],
        },
    }


def to_yaml(data: Mapping[str, Any]) -> str:
    """Return ``data`` as YAML in its own order, always the same text for the same data."""
    text: str = yaml.dump(data, Dumper=_Plain, sort_keys=False, width=10_000, allow_unicode=True)
    return text


class _Plain(yaml.SafeDumper):
    """Writes no anchors and indents list items, as people do."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is the library's
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - as above
        super().increase_indent(flow, False)


def _root(struct: type) -> dict[str, Any]:
    schema = object_schema(struct)
    head = {
        "apiVersion": f"API version of this object: {API_VERSION}.",
        "kind": f"Kind of this object: {struct.__name__}.",
    }
    texts = {name: {"type": "string", "description": description} for name, description in head.items()}
    schema["properties"] = {**texts, **schema["properties"]}
    schema["required"] = ["spec"]
    return {"description": (struct.__doc__ or "").strip(), **schema}


def _column(column: Column) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.wide:
        shown["priority"] = 1
    return shown
