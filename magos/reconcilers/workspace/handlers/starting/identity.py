"""Whose identity a run may take (spec §6.2.6, check 3), judged before every start of a plan and of an apply.

Who may edit a Workspace names the ServiceAccount that its code runs with. So that this gives nobody the rights of an
account that is there for something else:

1. Nothing runs in the controllers' own namespace, unless an administrator allows it.
2. A run takes an account only if somebody who may edit the account has labelled it as one for runs.
"""

from magos.api.labels import RUNNER
from magos.api.reasons import Reason
from magos.reconcilers.workspace.handlers.starting.admission import Refused
from magos.reconcilers.workspace.observation import Observation

_TRUE = "true"


def judge_identity(seen: Observation) -> Refused | None:
    """Judge namespace and ServiceAccount; for complete observations."""
    return judge_namespace(seen) or _account(seen)


def judge_namespace(seen: Observation) -> Refused | None:
    """Judge the namespace alone, which needs no read."""
    namespace = seen.subject.metadata.namespace
    if namespace != seen.settings.refused_namespace:
        return None
    return Refused(
        reason=Reason.NAMESPACE_NOT_ALLOWED,
        message=f"Namespace {namespace} is the one of the Magos controllers: a run here could take their rights. Create"
        " the Workspace in a namespace of its own (component tenant), or set MAGOS_ALLOW_CONTROLLER_NAMESPACE=true for"
        " the workspace controller.",
    )


def _account(seen: Observation) -> Refused | None:
    """An account that was not found is refused like one without the label: nothing is assumed."""
    meta, name = seen.subject.metadata, seen.subject.spec.service_account_name
    found = seen.account
    if found is None or found.metadata.name != name:
        return Refused(
            reason=Reason.SERVICE_ACCOUNT_NOT_FOUND,
            message=f"ServiceAccount {meta.namespace}/{name} does not exist: create it with the label {RUNNER}={_TRUE}"
            " (component tenant), or name another in spec.serviceAccountName.",
        )
    label = found.metadata.labels.get(RUNNER)
    if label == _TRUE:
        return None
    overwrite = "" if label is None else " --overwrite"
    return Refused(
        reason=Reason.SERVICE_ACCOUNT_NOT_ALLOWED,
        message=f"ServiceAccount {meta.namespace}/{name} does not carry the label {RUNNER}={_TRUE}, so no run may use"
        f" it. If whoever may edit Workspaces here may act with its rights, run `kubectl label serviceaccount {name}"
        f" --namespace={meta.namespace} {RUNNER}={_TRUE}{overwrite}`; else name another in spec.serviceAccountName.",
    )
