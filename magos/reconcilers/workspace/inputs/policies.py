"""The policies of a run: which are selected, and how they reach the runner pod (spec §5.4, §5.5, §7.4).

1. A policy that cannot be evaluated on a plan is named and refused; nothing is left out silently (invariant I6).
2. The policies of a run are a snapshot: an immutable ConfigMap under the digest of its content, which is verified.
3. Selecting nothing is not an error: the selector still reaches the runner, which reports zero policies.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from magos.api import labels, runnerpod
from magos.api.kube import ConfigMap, ConfigMapVolumeSource, Volume, VolumeMount
from magos.api.meta import ObjectMeta
from magos.api.names import policies_name
from magos.api.selectors import Selector
from magos.api.validatingpolicy import JSON_MODE, ValidatingPolicy, content_digest, policy_file, policy_text
from magos.api.workspace import Workspace
from magos.bounds import POLICY_TEXTS
from magos.ids import Digest
from magos.reconcilers.workspace.inputs.ownership import owned_by

_LARGEST_CONTENT: Final = POLICY_TEXTS.limit
"""Bytes that the API server accepts in the values of a ConfigMap; names are counted here too."""
_LONGEST_KEY: Final = 253
_SHOWN: Final = 5


class SelectedPolicies(Struct, frozen=True, kw_only=True):
    """What the effective selector of a run has found: the selector, and the policies as they are stored."""

    selector: Selector
    files: Mapping[str, str]

    @property
    def digest(self) -> Digest | None:
        """The digest of the content; None if nothing was selected."""
        if not self.files:
            return None
        return content_digest({name: text.encode() for name, text in self.files.items()})


def select_policies(selector: Selector, policies: Iterable[ValidatingPolicy]) -> SelectedPolicies:
    """Return what ``selector`` selects of all ``policies``, in the order of their names.

    Raises ``ValueError`` with a message for the user if a selected policy is not for plans, cannot be stored under its
    name, or if all of them together are more than a ConfigMap can hold.
    """
    selected = sorted(
        (policy for policy in policies if selector.matches(policy.metadata.labels)), key=lambda each: each.metadata.name
    )
    _check_modes(selected)
    _check_names(selected)
    files = {policy_file(policy.metadata.name): policy_text(policy) for policy in selected}
    _check_size(files)
    return SelectedPolicies(selector=selector, files=files)


def policies_config_map(workspace: Workspace, selected: SelectedPolicies) -> ConfigMap | None:
    """Return the ConfigMap that holds the selected policies; None if there are none."""
    digest = selected.digest
    if digest is None:
        return None
    meta = workspace.metadata
    return ConfigMap(
        metadata=ObjectMeta(
            name=policies_name(meta.name, digest.partition(":")[2]),
            namespace=meta.namespace,
            labels={labels.WORKSPACE: labels.workspace_label(meta.name)},
            owner_references=(owned_by(workspace),),
        ),
        data=selected.files,
        immutable=True,
    )


def policy_environment(selected: SelectedPolicies | None) -> list[tuple[str, str]]:
    """Return names and values for stage ``job`` of a plan; nothing without an effective selector."""
    if selected is None:
        return []
    pairs = [(runnerpod.POLICY_SELECTOR, str(selected.selector))]
    if selected.selector.everything:
        pairs.append((runnerpod.POLICY_ALL, "true"))
    digest = selected.digest
    return pairs if digest is None else [*pairs, (runnerpod.POLICIES_DIGEST, digest)]


def policies_volume(config_map: str) -> Volume:
    """Return the volume of a plan pod that holds the policies; ``config_map`` is the ConfigMap's name."""
    return Volume(name=runnerpod.POLICIES_VOLUME, config_map=ConfigMapVolumeSource(name=config_map))


def policies_mount() -> VolumeMount:
    """Return where stage ``job`` of a plan, and no other, sees the policies."""
    return VolumeMount(name=runnerpod.POLICIES_VOLUME, mount_path=runnerpod.POLICIES_PATH, read_only=True)


def _check_modes(selected: Iterable[ValidatingPolicy]) -> None:
    foreign = [policy for policy in selected if policy.mode != JSON_MODE]
    if foreign:
        named = ", ".join(f"{policy.metadata.name} ({policy.mode})" for policy in foreign[:_SHOWN])
        more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
        raise ValueError(
            f"the evaluation mode of ValidatingPolicy {named}{more} is not {JSON_MODE}: set spec.evaluation.mode to"
            f" {JSON_MODE} if it is about plans, or change its labels or the selector"
        )


def _check_names(selected: Iterable[ValidatingPolicy]) -> None:
    names = [policy.metadata.name for policy in selected]
    long = next((name for name in names if len(policy_file(name)) > _LONGEST_KEY), None)
    if long is not None:
        raise ValueError(
            f"the name of ValidatingPolicy {long} has {len(long)} characters, too many for a key of a ConfigMap"
            f" ({_LONGEST_KEY - len(policy_file(''))}): give it a shorter name"
        )


def _check_size(files: Mapping[str, str]) -> None:
    sizes = {name: len(name) + len(text.encode()) for name, text in files.items()}
    total = sum(sizes.values())
    if total > _LARGEST_CONTENT:
        largest = max(sizes, key=lambda name: sizes[name])
        raise ValueError(
            f"the {len(files)} selected ValidatingPolicies have {total} bytes, a ConfigMap holds {_LARGEST_CONTENT}:"
            f" select fewer or shorten them; the largest is {largest} with {sizes[largest]} bytes"
        )
