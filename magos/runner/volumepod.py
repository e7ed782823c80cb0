"""What a person types to reach the volume of a Workspace: a pod of his own that mounts it."""

from typing import Final

import msgspec

from magos.api.annotations import RECONCILE_REQUEST
from magos.api.names import volume_claim_name
from magos.runner.config import RunConfig

_USER: Final = 65532
_LONGEST_NAME: Final = 63


def volume_commands(run: RunConfig, files: tuple[str, str]) -> str:
    """Return the commands to inspect, save, push and discard a kept state; ``files`` are it and its companion."""
    pod = f"{run.workspace[: _LONGEST_NAME - 7].rstrip('-.')}-volume"
    state, copy = files[0], files[0].rpartition("/")[2]
    overrides = msgspec.json.encode(_pod(pod, volume_claim_name(run.workspace))).decode()
    inside = f"kubectl exec -n {run.namespace} {pod} --"
    request = f'{RECONCILE_REQUEST}="$(date +%s)" --overwrite'
    return "\n".join(
        (
            "what to do with a state that is kept; busybox stands for any image with a shell that your cluster has:",
            f"  open the volume:   kubectl run -n {run.namespace} {pod} --image=busybox --overrides='{overrides}'",
            f"  inspect the state: {inside} cat {state}",
            f"  save a copy:       {inside} cat {state} > {copy}",
            f"  push it by hand:   in a checkout of the module, after init: {_tool(run)} state push {copy}",
            f"  discard it:        {inside} rm -f {' '.join(files)}",
            f"  close the volume:  kubectl delete pod -n {run.namespace} {pod}",
            f"  run again:         kubectl annotate workspace -n {run.namespace} {run.workspace} {request}",
        )
    )


def _tool(run: RunConfig) -> str:
    return "tofu" if run.distribution == "opentofu" else "terraform"


def _pod(name: str, claim: str) -> dict[str, object]:
    """Return the pod as a namespace of Pod Security level restricted admits it."""
    container: dict[str, object] = {
        "name": name,
        "image": "busybox",
        "command": ["sleep", "3600"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "data", "mountPath": "/workspace-data"}],
    }
    security: dict[str, object] = {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "fsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {
        "spec": {
            "securityContext": security,
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        }
    }
