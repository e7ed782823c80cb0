"""Kyverno's ValidatingPolicy, as far as Magos has to understand it, and how policies travel to a runner pod.

A policy reaches the evaluator whole: its specification is carried through, not modelled, so that no field of a newer
Kyverno is lost. What is read of it here are the evaluation mode and the validation actions. Source: the kind
``validatingpolicies.policies.kyverno.io`` in version v1, and spec §4.8, §5.4 for the stored form and its digest.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta
from magos.api.result import ViolationAction
from magos.ids import Digest, digest_of

JSON_MODE: Final = "JSON"
"""The evaluation mode of policies that are about documents, such as plans, and not about Kubernetes objects."""

_DEFAULT_MODE: Final = "Kubernetes"
_SUFFIX: Final = ".yaml"
_HISTORY: Final = "kubectl.kubernetes.io/last-applied-configuration"
# What YAML reads otherwise than JSON when it stands in a quoted text as it is: controls and foreign line ends.
_UNSAFE_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class ValidatingPolicy(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A policy; ``spec`` is everything that its author wrote."""

    metadata: ObjectMeta
    spec: Mapping[str, object] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        """The evaluation mode: ``JSON`` for plans; ``Kubernetes`` where the policy names none."""
        evaluation = self.spec.get("evaluation")
        mode = evaluation.get("mode") if isinstance(evaluation, Mapping) else None
        return str(mode) if mode else _DEFAULT_MODE

    @property
    def action(self) -> ViolationAction:
        """What a violation of this policy leads to: the strictest of its validation actions, Deny if it has none.

        Anything that is not one of the three known actions counts as Deny: what is not understood must not let pass.
        """
        written = self.spec.get("validationActions")
        actions = set(map(str, written)) if isinstance(written, list | tuple) else set()
        if not actions or not actions <= set(ViolationAction) or ViolationAction.DENY in actions:
            return ViolationAction.DENY
        return ViolationAction.WARN if ViolationAction.WARN in actions else ViolationAction.AUDIT


VALIDATING_POLICIES = Kind(
    group="policies.kyverno.io",
    version="v1",
    plural="validatingpolicies",
    name="ValidatingPolicy",
    type=ValidatingPolicy,
    namespaced=False,
)


class _Stored(Struct, frozen=True, rename="camel", kw_only=True):
    api_version: str
    kind: str
    metadata: ObjectMeta
    spec: Mapping[str, object]


def policy_file(policy: str) -> str:
    """Return the name under which a policy is stored; the evaluator ignores files with another ending."""
    return policy + _SUFFIX


def policy_text(policy: ValidatingPolicy) -> str:
    """Return the manifest of ``policy``: equal policies give equal texts, whatever else the server knows of them.

    Written as the subset of YAML that is JSON: no text of a policy can then be mistaken for a number, a boolean or the
    beginning of another document by a reader of another version of YAML.
    """
    meta = policy.metadata
    annotations = {key: value for key, value in meta.annotations.items() if key != _HISTORY}
    stored = _Stored(
        api_version=VALIDATING_POLICIES.api_version,
        kind=VALIDATING_POLICIES.name,
        metadata=ObjectMeta(name=meta.name, labels=meta.labels, annotations=annotations),
        spec=policy.spec,
    )
    text = msgspec.json.format(msgspec.json.encode(stored, order="sorted")).decode()
    return _UNSAFE_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def read_policy(text: str | bytes) -> ValidatingPolicy:
    """Return the policy that ``policy_text`` wrote; ``ValueError`` says what is wrong with any other text."""
    stored = msgspec.json.decode(text, type=_Stored)
    if (stored.api_version, stored.kind) != (VALIDATING_POLICIES.api_version, VALIDATING_POLICIES.name):
        raise ValueError(f"it is a {stored.kind} of {stored.api_version}, not a policy of version v1")
    return ValidatingPolicy(metadata=stored.metadata, spec=stored.spec)


def content_digest(files: Mapping[str, bytes]) -> Digest:
    """Return the digest of stored policies: SHA-256 over key, length and bytes of each file in the order of keys."""
    parts = (b"%s\n%d\n%s" % (name.encode(), len(files[name]), files[name]) for name in sorted(files))
    return digest_of(b"".join(parts))
