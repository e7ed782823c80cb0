"""The canonical form does not depend on who wrote the defaults out."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from magos.api.canonical import canonical_json
from magos.api.workspace import PhaseOptions, Validation, WorkspaceSpec

_SPEC = {
    "projectRef": {"name": "shop"},
    "source": {"repoURL": "https://x/y", "targetRevision": "main"},
    "terraform": {"version": "1.9.8"},
}
_DEFAULTS = {"autoApply": True, "discardStalePlan": False, "serviceAccountName": "magos-job", "plan": {}, "apply": {}}


@given(written=st.sets(st.sampled_from(sorted(_DEFAULTS))), path=st.booleans())
def test_defaults_written_out_or_not_give_the_same_canonical_form(written: set[str], path: bool) -> None:
    source = {**_SPEC["source"], **({"path": "."} if path else {})}
    full = {**_SPEC, "source": source, **{name: _DEFAULTS[name] for name in written}}
    one = msgspec.json.decode(msgspec.json.encode(full), type=WorkspaceSpec)
    assert canonical_json(one) == msgspec.json.encode(_SPEC, order="sorted")


def test_what_is_no_default_changes_the_canonical_form() -> None:
    base = msgspec.convert(_SPEC, WorkspaceSpec)
    variants = [
        msgspec.structs.replace(base, **change)
        for change in (
            {"auto_apply": False},
            {"validation": Validation()},
            {"plan": PhaseOptions(timeout_seconds=5)},
            {"annotations": {"a": "b"}},
        )
    ]
    assert len({canonical_json(spec) for spec in (base, *variants)}) == 5
