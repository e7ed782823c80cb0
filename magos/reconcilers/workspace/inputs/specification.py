"""What a Workspace asks for, reduced to what can be compared: the spec hash and the effective policy selector.

The hash has two parts, ``<digest of spec>`` and, if a selector is in force, ``/<digest of selector>``. So a Project
that is merely missing can be told from one that changed its selector (spec §6.2.4: "a missing Project alone is no
change")."""

from msgspec import Struct

from magos.api.canonical import canonical_json
from magos.api.project import Project
from magos.api.selectors import LabelSelector
from magos.api.workspace import Workspace
from magos.ids import digest_of
from magos.reconcilers.workspace.inputs.memo import Memo

_SELECTOR_DIGITS = 16


class EffectiveSelector(Struct, frozen=True, kw_only=True):
    """The policy selector in force (None: no policies) and the object it stands in."""

    selector: LabelSelector | None
    origin: str


def effective_selector(workspace: Workspace, project: Project | None) -> EffectiveSelector:
    """Return the selector of the Workspace if it has ``validation``, else the Project's (spec §6.2.5)."""
    own = workspace.spec.validation
    if own is not None:
        return EffectiveSelector(selector=own.policy_selector, origin="spec.validation.policySelector")
    inherited = project.spec.validation if project is not None else None
    name = workspace.spec.project_ref.name
    return EffectiveSelector(
        selector=inherited.policy_selector if inherited is not None else None,
        origin=f"spec.validation.policySelector of Project {workspace.metadata.namespace}/{name}",
    )


def specification_hash(workspace: Workspace, project: Project | None) -> str:
    """Return the hash over everything whose change calls for a new run."""
    selector = effective_selector(workspace, project).selector
    own = _digest_of_spec(workspace)
    if selector is None:
        return own
    return f"{own}/{digest_of(canonical_json(selector)).removeprefix('sha256:')[:_SELECTOR_DIGITS]}"


_digests: Memo[str] = Memo()


def _digest_of_spec(workspace: Workspace) -> str:
    spec, meta = workspace.spec, workspace.metadata
    return _digests.of((meta.namespace, meta.name), (spec,), lambda: digest_of(canonical_json(spec)))


def forget_specification(namespace: str, name: str) -> None:
    """Let go of what is remembered of a Workspace that is gone."""
    _digests.forget((namespace, name))


def same_specification(stored: str, workspace: Workspace, project: Project | None) -> bool:
    """Tell whether ``stored`` is the hash of what the Workspace asks for now."""
    if project is None and workspace.spec.validation is None:
        return stored.partition("/")[0] == specification_hash(workspace, None)
    return stored == specification_hash(workspace, project)
