"""Objects of a shop in every state that the pages show."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from magos.api.project import Project
from magos.api.rollout import Rollout
from magos.api.timestamps import format_time
from magos.api.variableset import VariableSet
from magos.api.workspace import Workspace
from magos.history.runs import Run, RunPhase

__all__ = [
    "COMMIT",
    "HOSTILE",
    "LOG",
    "NOW",
    "RUN",
    "PROJECTS",
    "ROLLOUTS",
    "SETS",
    "WORKSPACES",
    "as_object",
    "runs",
    "workspace",
]

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)
RUN = "20261201T114600-0a2bfc19"
COMMIT = "e59d842f0c1b2a3948576d6e7f8091a2b3c4d5e6"

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "</title><script>alert(1)</script>",
    "<!-- <b>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&amp;",
    "\u202egnp.exe",
)
"""Texts that must be shown as they are and do nothing."""

Json = dict[str, Any]


def workspace(name: str, phase: str | None, *, namespace: str = "shop", **more: Any) -> Json:
    """Return a Workspace as JSON. ``more`` are fields of its status, or change the rest."""
    ago = more.pop("ago", 2)
    at = format_time(NOW - timedelta(minutes=ago))
    spec: Json = {
        "projectRef": {"name": more.pop("project", "shop")},
        "source": {
            "repoURL": "https://github.com/example/infrastructure.git",
            "targetRevision": "main",
            "path": f"environments/{name.rpartition('-')[2]}",
        },
        "terraform": {"version": "1.9.8"},
        "variableSetRef": [{"name": "common"}] if namespace == "shop" else [],
        **more.pop("spec", {}),
    }
    status: Json = {
        "phase": phase,
        "observedGeneration": 1,
        "lastReconcileTime": at,
        "observedRevision": COMMIT,
        "observedReconcileInterval": "3m0s",
        "nextReconcileTime": format_time(NOW + timedelta(seconds=72)),
        "currentRunID": RUN,
        "currentRunTrigger": "revision",
        "lastRunStartedAt": at,
        "currentRun": {
            "revision": COMMIT,
            "planJob": f"{name}-plan-1",
            "variables": [
                {"name": "region", "source": "VariableSet/common"},
                {"name": "db_password", "source": "Secret/db password", "version": "812"},
            ],
        },
        "conditions": [
            {
                "type": "Ready",
                "status": "Unknown",
                "reason": more.get("reason", "Planning"),
                "message": more.get("message", ""),
                "lastTransitionTime": at,
            }
        ],
        **more.pop("patch", {}),
    }
    labels = more.pop("labels", {"stage": name.rpartition("-")[2]})
    status.update(more)
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "generation": 1,
        "resourceVersion": "1",
        "creationTimestamp": format_time(NOW - timedelta(days=3)),
        "labels": labels,
    }
    return {"metadata": meta, "spec": spec, "status": {k: v for k, v in status.items() if v is not None}}


def _planned(digest: str = "sha256:" + "ab" * 32, **run: Any) -> Json:
    return {"revision": COMMIT, "planJob": "plan-1", "planDigest": digest, "hasChanges": True, **run}


def _gate(reason: str = "ManualApproval", minutes: int = 14) -> Json:
    return {"runID": RUN, "reason": reason, "since": format_time(NOW - timedelta(minutes=minutes)), "revision": COMMIT}


_CHANGES = {"add": 4, "change": 2, "destroy": 1, "noChanges": False}
_VIOLATIONS = [
    {"policy": "no-public-buckets", "message": "bucket 'assets' is readable by everybody", "action": "Audit"},
    {"policy": "tags-are-set", "message": "aws_instance.web has no tag 'owner'", "action": "Audit"},
]
_NONE = {"add": 0, "change": 0, "destroy": 0, "noChanges": True}

WORKSPACES: tuple[Json, ...] = (
    workspace(
        "shop-dev",
        "Applied",
        reason="ApplySucceeded",
        message="applied 4 added, 2 changed, 1 destroyed",
        planSummary=_CHANGES,
        policiesEvaluated=3,
        currentRun=_planned(applyJob="apply-1"),
    ),
    workspace(
        "shop-staging",
        "Failed",
        ago=12,
        reason="PlanFailed",
        message='Error: Unsupported argument on main.tf line 12, in resource "aws_s3_bucket" "assets":'
        ' An argument named "acl_policy" is not expected here.',
    ),
    workspace(
        "shop-prod",
        "Planned",
        ago=14,
        reason="PlanSucceeded",
        message="waits for the approval of run " + RUN,
        spec={"autoApply": False},
        planSummary=_CHANGES,
        awaitingApproval=_gate(),
        currentRun=_planned(),
        policiesEvaluated=3,
    ),
    workspace(
        "pay-prod",
        "PlannedWithViolations",
        ago=31,
        reason="AuditPolicyViolation",
        message="2 violations wait for an approval",
        planSummary=_CHANGES,
        awaitingApproval=_gate("AuditViolations", 31),
        policyViolations=_VIOLATIONS,
        policiesEvaluated=5,
        currentRun=_planned(),
        project="pay",
    ),
    workspace("pay-dev", "Planning", ago=1, reason="Planning", project="pay"),
    workspace(
        "pay-staging",
        "Applying",
        ago=3,
        reason="Applying",
        planSummary=_CHANGES,
        currentRun=_planned(applyJob="apply-1"),
        project="pay",
    ),
    workspace(
        "network",
        "ValidationFailed",
        ago=55,
        reason="PolicyViolation",
        message="1 violation: no-public-buckets: bucket 'assets' is readable by everybody",
        policyViolations=[{**_VIOLATIONS[0], "action": "Deny"}],
        policiesEvaluated=3,
        planSummary=_CHANGES,
        currentRun=_planned(),
        project="platform",
        namespace="platform",
    ),
    workspace(
        "dns",
        "Applied",
        ago=180,
        reason="NoChanges",
        planSummary=_NONE,
        currentRun=_planned(hasChanges=False),
        project="platform",
        namespace="platform",
    ),
    workspace(
        "cluster",
        "Pending",
        ago=5,
        reason="AwaitingRollout",
        message="waits for permission of the Rollout",
        project="platform",
        namespace="platform",
    ),
    workspace(
        "a-workspace-with-quite-a-long-name-that-somebody-made-up-in-a-hurry",
        "Applied",
        ago=1500,
        reason="NoChanges",
        planSummary=_NONE,
        project="platform",
        namespace="platform",
    ),
    workspace(
        "fresh",
        None,
        project="platform",
        namespace="platform",
        currentRunID=None,
        currentRun=None,
        lastRunStartedAt=None,
        observedRevision=None,
        conditions=[],
    ),
)


def _meta(name: str, namespace: str = "shop") -> Json:
    return {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "1"}


def _ready(reason: str, message: str = "") -> Json:
    at = format_time(NOW - timedelta(hours=2))
    return {
        "phase": "Ready",
        "observedGeneration": 1,
        "reason": reason,
        "message": message,
        "lastReconcileTime": at,
        "conditions": [
            {"type": "Ready", "status": "True", "reason": reason, "message": message, "lastTransitionTime": at}
        ],
    }


PROJECTS: tuple[Json, ...] = (
    {
        "metadata": _meta("shop"),
        "spec": {
            "description": "The web shop, from development to production.",
            "variableSetRef": [{"name": "common"}, {"name": "network"}],
        },
        "status": {**_ready("ManagedByRollout"), "members": 3},
    },
    {
        "metadata": _meta("pay"),
        "spec": {"description": "Payments."},
        "status": {**_ready("DefaultParallel"), "members": 3},
    },
    {"metadata": _meta("platform", "platform"), "spec": {}, "status": {**_ready("DefaultParallel"), "members": 5}},
)


def _step(name: str) -> Json:
    return {"name": name, "selector": {"matchLabels": {"stage": name}}}


ROLLOUTS: tuple[Json, ...] = (
    {
        "metadata": _meta("shop"),
        "spec": {"projectRef": "shop", "strategy": {"steps": [_step("dev"), _step("staging"), _step("prod")]}},
        "status": {
            **_ready("StepFailed", "step [staging]: shop-staging Failed/PlanFailed; prod waits behind"),
            "phase": "Failed",
            "currentStep": 1,
        },
    },
    {
        "metadata": _meta("pay"),
        "spec": {"projectRef": "pay", "strategy": {"steps": [_step("dev"), _step("staging")]}},
        "status": {
            **_ready("LevelProgressing", "step [dev] of 2: running pay-dev"),
            "phase": "Reconciling",
            "currentStep": 0,
            "unselectedWorkspaces": 1,
        },
    },
)
SETS: tuple[Json, ...] = (
    {
        "metadata": _meta("common"),
        "spec": {
            "description": "What every environment shares.",
            "variables": [
                {"name": "region", "value": "eu-central-1"},
                {"name": "zones", "value": '["a", "b", "c"]'},
                {"name": "db_password", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
                {
                    "name": "licence",
                    "valueFrom": {"configMapKeyRef": {"name": "licences", "key": "shop", "optional": True}},
                },
            ],
        },
        "status": {
            **_ready("UnresolvedReferences", "Secret/db password: ResourceNotFound"),
            "phase": "Failed",
            "resolvedVariables": 3,
            "unresolvedReferences": [{"kind": "Secret", "name": "db", "key": "password", "reason": "ResourceNotFound"}],
        },
    },
    {
        "metadata": _meta("network"),
        "spec": {"variables": [{"name": "cidr", "value": "10.0.0.0/16"}]},
        "status": {**_ready("AllReferencesResolved"), "resolvedVariables": 1},
    },
)


def runs(count: int = 20) -> tuple[Run, ...]:
    """Return ended runs, newest first, with the current one of ``WORKSPACES`` first."""
    results = ("Applied", "NoChanges", "NoChanges", "Failed", "Applied", "NoChanges", "Discarded")
    found = []
    for index in range(count):
        started = NOW - timedelta(hours=3 * index + 1)
        result = results[index % len(results)]
        seconds = 40 + (index * 37) % 160
        run_id = f"{started:%Y%m%dT%H%M%S}-{index:08x}"
        phase = {
            "jobName": "j",
            "podName": "p",
            "startedAt": format_time(started),
            "finishedAt": format_time(started + timedelta(seconds=seconds)),
            "result": "Failed" if result == "Failed" else "Succeeded",
            "exitCode": 0,
            "logKey": f"run-logs/{run_id}",
        }
        found.append(
            {
                "runID": run_id,
                "trigger": "scheduled" if index % 2 else "revision",
                "targetRevision": "main",
                "observedRevision": COMMIT,
                "startedAt": format_time(started),
                "finishedAt": format_time(started + timedelta(seconds=seconds)),
                "result": result,
                "principal": "" if index % 2 else "jane@example.org",
                **({"changes": _CHANGES if result == "Applied" else _NONE} if result != "Failed" else {}),
                "approvedBy": "joe@example.org" if index == 4 else "",
                **({"approval": "approved"} if index == 4 else {}),
                "reason": "PlanFailed" if result == "Failed" else "",
                "message": "Error: Unsupported argument" if result == "Failed" else "",
                "terraformVersion": "1.9.8",
                "planDigest": "sha256:" + "cd" * 32,
                "variables": [{"name": "region", "source": "VariableSet/common"}],
                "plan": phase,
                **({"apply": phase} if result == "Applied" else {}),
            }
        )
    return tuple(msgspec.convert(each, Run) for each in found)


def _log() -> bytes:
    lines = [
        "=== fetch ===",
        "Fetching https://github.com/example/infrastructure.git at e59d842",
        "Checked out 214 files",
        "=== terraform ===",
        "\x1b[1mInitializing the backend...\x1b[0m",
        "\x1b[32mTerraform has been successfully initialized!\x1b[0m",
    ]
    lines += [
        f"\x1b[1maws_subnet.private[{index}]: Refreshing state... [id=subnet-{index:06x}]\x1b[0m"
        for index in range(380)
    ]
    lines += [
        "\x1b[31m╷\x1b[0m",
        "\x1b[31m│\x1b[0m \x1b[1m\x1b[31mError: \x1b[0m\x1b[1mUnsupported argument\x1b[0m",
        '\x1b[31m│\x1b[0m   on main.tf line 12, in resource "aws_s3_bucket" "assets":',
        '\x1b[31m│\x1b[0m   12:   acl_policy = "private"',
        "\x1b[31m╵\x1b[0m",
        "\x1b[33mWarning: \x1b[0mDeprecated attribute",
    ]
    lines += [f"aws_route.table[{index}]: Refreshing state..." for index in range(300)]
    lines += ["=== job ===", "Plan: \x1b[32m4 to add\x1b[0m, \x1b[33m2 to change\x1b[0m, \x1b[31m1 to destroy\x1b[0m."]
    return ("\n".join(lines) + "\n").encode()


LOG = _log()
PLANS = {path.stem: path.read_text("utf-8") for path in (Path(__file__).parent / "plans").glob("*.txt")}
"""What OpenTofu 1.12.6 printed for plans of small configurations."""


def plan_log(output: str) -> bytes:
    """Return the log of a plan phase whose tool printed ``output``."""
    return f"=== fetch ===\nChecked out 2 files\n=== terraform ===\n{output}\n=== job ===\nplanned\n".encode()


PLAN_LOG = plan_log(PLANS["mixed"])
PLAN_KEY = "run-logs/plan"
PLANNED_RUN = Run(run_id=RUN, plan=RunPhase(job_name="j", pod_name="p", log_key=PLAN_KEY))
"""The current run of pay-prod as history has it."""


def as_object(kind: type[Any], item: Mapping[str, Any]) -> Any:
    """Return the typed object."""
    return msgspec.convert(item, kind)


def all_workspaces() -> tuple[Workspace, ...]:
    """Return ``WORKSPACES`` as typed objects, sorted as the cache sorts them."""
    found = [msgspec.convert(each, Workspace) for each in WORKSPACES]
    return tuple(sorted(found, key=lambda each: (each.metadata.namespace, each.metadata.name)))


def all_projects() -> tuple[Project, ...]:
    """Return ``PROJECTS`` as typed objects."""
    return tuple(msgspec.convert(each, Project) for each in PROJECTS)


def all_rollouts() -> tuple[Rollout, ...]:
    """Return ``ROLLOUTS`` as typed objects."""
    return tuple(msgspec.convert(each, Rollout) for each in ROLLOUTS)


def all_sets() -> tuple[VariableSet, ...]:
    """Return ``SETS`` as typed objects."""
    return tuple(msgspec.convert(each, VariableSet) for each in SETS)
