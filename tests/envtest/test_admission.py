"""Every admission rule, against the real API server: what is accepted, what is refused, and in which words.

Objects are created with ``dryRun=All``: defaulting, validation and CEL run in full, nothing is stored.
"""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from magos.errors import MagosError
from tests.envtest.cluster import Cluster

_ABSENT = object()
_SHA = "0123456789abcdef0123456789abcdef01234567"
_LABEL = "invalid label key or value"
_REQUIRED = "is required and must not be empty"
_SELECTOR = "spec.validation.policySelector"
_STEP = "spec.strategy.steps.0.selector"
_VALUE_FROM = "spec.variables.0.valueFrom"

_BASES: Mapping[str, dict[str, Any]] = {
    "workspaces": {
        "kind": "Workspace",
        "metadata": {"name": "network"},
        "spec": {
            "projectRef": {"name": "shop"},
            "source": {"repoURL": "https://git.example.com/shop/infra.git", "targetRevision": "main"},
            "terraform": {"version": "1.9.8"},
        },
    },
    "projects": {"kind": "Project", "metadata": {"name": "shop"}, "spec": {}},
    "rollouts": {
        "kind": "Rollout",
        "metadata": {"name": "shop"},
        "spec": {
            "projectRef": "shop",
            "strategy": {"steps": [{"name": "dev", "selector": {"matchLabels": {"stage": "dev"}}}]},
        },
    },
    "variablesets": {
        "kind": "VariableSet",
        "metadata": {"name": "common"},
        "spec": {"variables": [{"name": "region", "value": "north"}]},
    },
}


def _with(plural: str, changes: Mapping[str, object]) -> dict[str, Any]:
    """The base object of a kind with values set (or removed, if ``_ABSENT``) at dotted paths."""
    body = copy.deepcopy(_BASES[plural])
    body["apiVersion"] = "magosproject.io/v1alpha1"
    for path, value in changes.items():
        *parents, last = path.split(".")
        place: Any = body
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        if value is _ABSENT:
            del place[last]
        elif isinstance(place, list):
            place[int(last)] = value
        else:
            place[last] = value
    return body


def _create(cluster: Cluster, plural: str, changes: Mapping[str, object]) -> dict[str, Any]:
    path = f"/apis/magosproject.io/v1alpha1/namespaces/default/{plural}?dryRun=All"
    created: dict[str, Any] = cluster.request("POST", path, _with(plural, changes))
    return created


def _ids(cases: list[tuple[Any, ...]]) -> list[str]:
    # Values can be long or unprintable; the number finds the case.
    return [f"{case[0]}-{next(iter(case[1]), 'base')}-{number}" for number, case in enumerate(cases)]


_URL = "spec.source.repoURL"
_REF = "spec.source.targetRevision"
_VERSION = "spec.terraform.version"

ACCEPTED: list[tuple[str, Mapping[str, object]]] = [
    *((plural, {}) for plural in _BASES),
    *(
        ("workspaces", {_URL: url})
        for url in (
            "https://git.example.com/shop/infra.git",
            "http://git.example.com:8080/infra",
            "https://git.example.com/@scope/infra.git",
            "https://git.example.com/infra?ref=x#y",
            "https://[2001:db8::1]:8443/infra.git",
            "ssh://git@git.example.com:2222/infra.git",
            "git+ssh://git@git.example.com/infra.git",
            "git://git.example.com/infra.git",
            "file:///srv/git/infra.git",
            "/srv/git/infra.git",
            "git@git.example.com:shop/infra.git",
            "git.example.com:/shop/infra.git",
            "git@[2001:db8::1]:shop/infra.git",
            "git@git.example.com:shop/a:b@c.git",
            "https://git.example.com/" + "a" * 2024,
        )
    ),
    *(
        ("workspaces", {_REF: ref})
        for ref in ("main", "HEAD", "v1.2.3", "feature/a-b_c", "refs/heads/main", "refs/tags/v1", _SHA, "a@b", "größe")
    ),
    *(("workspaces", {"spec.source.path": path}) for path in (".", "./a", "a/b", "..a/b..", "a/.b", "with blank")),
    *(("workspaces", {"spec.terraform.tfvarsPath": path}) for path in ("env/dev.tfvars", "a..b/c", "")),
    *(
        ("workspaces", {_VERSION: version})
        for version in ("1.9.8", "0.0.0", "1.10.0-beta1", "1.0.0-rc.1", "1.0.0-0.3.7", "1.0.0-x-y.z")
    ),
    ("workspaces", {"spec.terraform.distribution": "opentofu"}),
    ("workspaces", {"spec.plan.timeoutSeconds": 1}),
    ("workspaces", {"spec.apply.timeoutSeconds": 2**40}),
    ("workspaces", {"metadata.name": "n" * 248}),
    ("workspaces", {"spec.variableSetRef": [{"name": "common"}] * 64}),
    ("workspaces", {"spec.validation": {}}),
    ("workspaces", {_SELECTOR: {}}),
    ("workspaces", {_SELECTOR: {"matchLabels": {"example.com/team": "a_b.c-D", "empty": ""}}}),
    ("workspaces", {_SELECTOR: {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x" * 63]}]}}),
    ("workspaces", {_SELECTOR: {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x", "y"]}]}}),
    ("workspaces", {_SELECTOR: {"matchExpressions": [{"key": "p/a", "operator": "Exists"}]}}),
    ("workspaces", {_SELECTOR: {"matchExpressions": [{"key": "a", "operator": "DoesNotExist", "values": []}]}}),
    ("projects", {"spec.description": "d" * 4096}),
    ("projects", {"spec.variableSetRef": [{"name": "common"}] * 64}),
    ("projects", {"spec.validation.policySelector": {"matchLabels": {"team": "a"}}}),
    ("rollouts", {"spec.strategy.steps": []}),
    ("rollouts", {"spec.strategy.steps": [{"name": "same", "selector": {}}] * 64}),
    ("variablesets", {"spec.variables": [{"name": f"v{n}", "value": ""} for n in range(500)]}),
    ("variablesets", {"spec.variables.0.name": "_" + "x" * 252}),
    (
        "variablesets",
        {
            "spec.variables": [
                {"name": "password", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
                {"name": "region", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            ]
        },
    ),
]

_CHARS = "source.repoURL must not contain blanks or control characters or start with '-'"
_HELPER = "Git remote helpers (helper::address) are not supported"
_FORM = "source.repoURL must be an http(s), ssh, git+ssh or scp-like URL"
_PASSWORD = "put credentials in a Secret labelled magosproject.io/secret-type=repository, not in source.repoURL"
_REF_FORM = "source.targetRevision must be a branch, a tag, HEAD or a full 40-digit commit SHA"
_PATH = "source.path must be a relative path inside the repository"
_TFVARS = "terraform.tfvarsPath must be a relative path inside the repository"
_VERSION_FORM = "terraform.version must be an exact version such as 1.9.8"
_ONE_VALUE = "exactly one of value and valueFrom must be set"
_ONE_REF = "exactly one of valueFrom.secretKeyRef and valueFrom.configMapKeyRef must be set"


def _expression(operator: str, *values: str, key: str = "stage") -> dict[str, object]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _reference_cases() -> list[tuple[str, Mapping[str, object], str]]:
    cases: list[tuple[str, Mapping[str, object], str]] = []
    for reference in ("secretKeyRef", "configMapKeyRef"):
        for broken in ("name", "key"):
            for value in ("", _ABSENT):
                target: dict[str, object] = {"name": "n", "key": "k"}
                if value is _ABSENT:
                    del target[broken]
                else:
                    target[broken] = value
                variable = {"name": "v", "valueFrom": {reference: target}}
                cases.append(
                    ("variablesets", {"spec.variables.0": variable}, f"valueFrom.{reference}.{broken} {_REQUIRED}")
                )
    return cases


REFUSED: list[tuple[str, Mapping[str, object], str]] = [
    *((plural, {"spec": _ABSENT}, "spec: Required value") for plural in _BASES),
    # required texts
    *(
        ("workspaces", {f"spec.{path}": value}, f"{path} {_REQUIRED}")
        for path in ("projectRef.name", "source.repoURL", "source.targetRevision", "terraform.version")
        for value in ("", _ABSENT)
    ),
    *(
        ("workspaces", {f"spec.{part}": _ABSENT}, f"spec.{part}: Required value")
        for part in ("projectRef", "source", "terraform")
    ),
    *(
        (plural, {"spec.variableSetRef": [reference]}, f"variableSetRef[].name {_REQUIRED}")
        for plural in ("workspaces", "projects")
        for reference in ({"name": ""}, {})
    ),
    *_reference_cases(),
    *(("rollouts", {"spec.projectRef": value}, f"projectRef {_REQUIRED}") for value in ("", _ABSENT)),
    *(("rollouts", {"spec.strategy.steps.0.name": v}, f"strategy.steps[].name {_REQUIRED}") for v in ("", _ABSENT)),
    ("rollouts", {"spec.strategy": _ABSENT}, "spec.strategy: Required value"),
    ("rollouts", {"spec.strategy.steps": _ABSENT}, "spec.strategy.steps: Required value"),
    ("rollouts", {_STEP: _ABSENT}, "spec.strategy.steps[0].selector: Required value"),
    # repository URL
    *(
        ("workspaces", {_URL: url}, _CHARS)
        for url in ("https://git.example.com/a b", "https://git.example.com/a\tb", "https://git\n.example.com/a")
    ),
    *(("workspaces", {_URL: url}, _CHARS) for url in ("-uploadpack=x", "--upload-pack=touch /x", "https://x/\u0085")),
    *(("workspaces", {_URL: url}, _HELPER) for url in ("ext::sh -c x", "fd::17", "git-remote+x::https://x/y")),
    *(
        ("workspaces", {_URL: url}, _FORM)
        for url in (
            "infra",
            "./infra",
            "../infra",
            "ftp://git.example.com/a",
            "HTTPS://git.example.com/a",
            "https://",
            "https:///a",
            "https://git.example.com:port/a",
            "ssh://-oProxyCommand=x/a",
            "git@-oProxyCommand=x:a",
            "javascript://x/y",
            "git.example.com:",
            "host://x",
        )
    ),
    *(
        ("workspaces", {_URL: url}, _PASSWORD)
        for url in (
            "https://user:secret@git.example.com/a.git",
            "https://:secret@git.example.com/a.git",
            "https://user:@git.example.com/a.git",
            "ssh://git:secret@git.example.com/a.git",
            "https://user:se@cret@git.example.com/a.git",
            "https://ghp_0123456789@git.example.com/a.git",
            "https://someone@git.example.com:8443/a.git",
            "http://@git.example.com/a.git",
            "git://token@git.example.com/a.git",
            "user:secret@git.example.com:a.git",
        )
    ),
    ("workspaces", {_URL: "https://git.example.com/" + "a" * 2025}, "spec.source.repoURL: Too long"),
    # target revision
    *(
        ("workspaces", {_REF: ref}, _REF_FORM)
        for ref in (
            "-main",
            "a b",
            "a..b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[b",
            "a\\b",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.",
            "a.lock",
            "a.lock/b",
            "a@{1}",
            "@",
            "a\x7f",
            "a\n",
        )
    ),
    # paths
    *(
        ("workspaces", {"spec.source.path": path}, _PATH)
        for path in ("", "/abs", "..", "../x", "a/../b", "a/..", "a\x00b", "a\nb", "a\x7f")
    ),
    *(("workspaces", {"spec.terraform.tfvarsPath": p}, _TFVARS) for p in ("/abs", "..", "a/../b", "a\x1fb")),
    # tool
    *(
        ("workspaces", {_VERSION: version}, _VERSION_FORM)
        for version in (
            "1.11",
            "v1.11.4",
            ">= 1.5",
            "1",
            "1.2.3.4",
            "01.2.3",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3+b",
            "latest",
        )
    ),
    ("workspaces", {"spec.terraform.distribution": "pulumi"}, "must be terraform or opentofu"),
    ("workspaces", {"spec.terraform.distribution": ""}, "must be terraform or opentofu"),
    *(
        ("workspaces", {f"spec.{job}.timeoutSeconds": value}, "timeoutSeconds must be at least 1")
        for job in ("plan", "apply")
        for value in (0, -5)
    ),
    ("workspaces", {"spec.serviceAccountName": ""}, "serviceAccountName must not be empty"),
    # selectors, in each of the three places
    *(
        (plural, {path: selector}, message)
        for plural, path in (("workspaces", _SELECTOR), ("projects", _SELECTOR), ("rollouts", _STEP))
        for selector, message in (
            (_expression("Equals", "x"), "operator must be In, NotIn, Exists or DoesNotExist"),
            (_expression("In"), "In requires at least one value"),
            (_expression("NotIn"), "NotIn requires at least one value"),
            (_expression("Exists", "x"), "Exists must not have values"),
            (_expression("DoesNotExist", "x"), "DoesNotExist must not have values"),
            (_expression("In", "no blanks"), _LABEL),
            (_expression("In", "-x"), _LABEL),
            (_expression("In", "x" * 64), _LABEL),
            (_expression("Exists", key="a b"), _LABEL),
            (_expression("Exists", key="/a"), _LABEL),
            (_expression("Exists", key="UPPER.com/a"), _LABEL),
            (_expression("Exists", key="k" * 64), _LABEL),
            (_expression("Exists", key="p" * 254 + "/k"), _LABEL),
            ({"matchLabels": {"a b": "x"}}, _LABEL),
            ({"matchLabels": {"a": "x y"}}, _LABEL),
            ({"matchLabels": {"a": "x" * 64}}, _LABEL),
        )
    ),
    # Rollout, VariableSet
    ("rollouts", {"metadata.name": "other"}, "metadata.name must equal spec.projectRef (one Rollout per Project)"),
    ("variablesets", {"spec.variables": []}, "variables must have at least one entry"),
    ("variablesets", {"spec.variables": _ABSENT}, "spec.variables: Required value"),
    ("variablesets", {"spec.variables": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]}, "Duplicate value"),
    *(
        ("variablesets", {"spec.variables.0.name": name}, "variables[].name must be 1 to 253 letters, digits and")
        for name in ("", "1a", "a-b", "a.b", "a b", "é", "x" * 254)
    ),
    ("variablesets", {"spec.variables.0": {"name": "a"}}, _ONE_VALUE),
    (
        "variablesets",
        {"spec.variables.0.valueFrom": {"secretKeyRef": {"name": "n", "key": "k"}}},
        _ONE_VALUE,
    ),
    ("variablesets", {"spec.variables.0": {"name": "a", "valueFrom": {}}}, _ONE_REF),
    (
        "variablesets",
        {
            "spec.variables.0": {
                "name": "a",
                "valueFrom": {
                    "secretKeyRef": {"name": "n", "key": "k"},
                    "configMapKeyRef": {"name": "n", "key": "k"},
                },
            }
        },
        _ONE_REF,
    ),
    # sizes
    ("workspaces", {"metadata.name": "n" * 249}, "must be at most 248 characters"),
    *(
        (plural, {"spec.variableSetRef": [{"name": "s"}] * 65}, "variableSetRef may have at most 64 entries")
        for plural in ("workspaces", "projects")
    ),
    ("rollouts", {"spec.strategy.steps": [{"name": "s", "selector": {}}] * 65}, "steps may have at most 64 entries"),
    (
        "variablesets",
        {"spec.variables": [{"name": f"v{n}", "value": ""} for n in range(501)]},
        "variables may have at most 500 entries",
    ),
    ("projects", {"spec.description": "d" * 4097}, "spec.description: Too long"),
]


@pytest.mark.parametrize(("plural", "changes"), ACCEPTED, ids=_ids(ACCEPTED))
def test_what_is_valid_is_accepted(control_plane: Cluster, plural: str, changes: Mapping[str, object]) -> None:
    _create(control_plane, plural, changes)


@pytest.mark.parametrize(("plural", "changes", "message"), REFUSED, ids=_ids(REFUSED))
def test_what_is_invalid_is_refused_with_the_promised_words(
    control_plane: Cluster, plural: str, changes: Mapping[str, object], message: str
) -> None:
    with pytest.raises(MagosError) as refusal:
        _create(control_plane, plural, changes)
    assert message in str(refusal.value)


def test_defaults_are_written_out(control_plane: Cluster) -> None:
    spec = _create(control_plane, "workspaces", {})["spec"]
    assert spec["autoApply"] is True
    assert spec["discardStalePlan"] is False
    assert spec["serviceAccountName"] == "magos-job"
    assert spec["source"]["path"] == "."
    assert spec["terraform"]["distribution"] == "terraform"
    assert "validation" not in spec
    assert "plan" not in spec


def test_an_empty_literal_and_an_empty_selector_survive(control_plane: Cluster) -> None:
    created = _create(control_plane, "variablesets", {"spec.variables.0.value": ""})
    assert created["spec"]["variables"] == [{"name": "region", "value": ""}]
    created = _create(control_plane, "workspaces", {_SELECTOR: {}})
    assert created["spec"]["validation"] == {"policySelector": {}}


def test_unknown_fields_are_pruned(control_plane: Cluster) -> None:
    assert "surprise" not in _create(control_plane, "workspaces", {"spec.surprise": 1})["spec"]
