"""The live reads that a Workspace's decisions ask for: what is asked, as data.

What a start is decided on depends on what the Workspace and its Project name. So the same functions say what to ask
and, in the pass that follows, whether everything has been answered for the objects as they have turned out to be.
"""

from magos.api.kube import (
    CONFIG_MAPS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICE_ACCOUNT_METADATA,
    Job,
    Pod,
)
from magos.api.labels import WORKSPACE, workspace_label
from magos.api.names import volume_claim_name
from magos.api.phases import WITH_PLAN
from magos.api.project import PROJECTS, Project
from magos.api.selectors import compile_selector
from magos.api.validatingpolicy import VALIDATING_POLICIES
from magos.api.variableset import VARIABLESETS
from magos.api.workspace import WORKSPACES, Workspace
from magos.reconcilers.effects import JobEvents, RepositorySecrets
from magos.reconcilers.workspace.inputs.specification import effective_selector
from magos.runtime.decision import LiveGet, LiveList, Query


def live_probes(namespace: str, name: str) -> tuple[Query, ...]:
    """Return the reads that make an observation live."""
    selector = f"{WORKSPACE}={workspace_label(name)}"
    return (
        LiveGet(WORKSPACES, namespace, name),
        LiveList(JOBS, namespace, selector),
        LiveList(PODS, namespace, selector),
    )


def start_probes(workspace: Workspace, project: Project | None) -> tuple[Query, ...]:
    """Return the reads that a start is decided on, as far as is known what the Workspace and its Project name."""
    meta = workspace.metadata
    policies = policies_probe(workspace, project)
    return (
        *live_probes(meta.namespace, meta.name),
        *input_probes(workspace, project),
        claim_probe(workspace),
        account_probe(workspace),
        secrets_probe(workspace),
        *(() if policies is None else (policies, stored_policies_probe(workspace))),
    )


def input_probes(workspace: Workspace, project: Project | None) -> tuple[Query, ...]:
    """Return the reads that tell what the Workspace gets from its Project and from VariableSets."""
    return (project_probe(workspace), *(set_probe(workspace, name) for name in set_names(workspace, project)))


def project_probe(workspace: Workspace) -> LiveGet:
    """Return the question for the Project."""
    return LiveGet(PROJECTS, workspace.metadata.namespace, workspace.spec.project_ref.name)


def claim_probe(workspace: Workspace) -> LiveGet:
    """Return the question for the volume claim."""
    meta = workspace.metadata
    return LiveGet(PERSISTENT_VOLUME_CLAIMS, meta.namespace, volume_claim_name(meta.name))


def account_probe(workspace: Workspace) -> LiveGet:
    """Return the question for the ServiceAccount that the pods would run with."""
    return LiveGet(SERVICE_ACCOUNT_METADATA, workspace.metadata.namespace, workspace.spec.service_account_name)


def secrets_probe(workspace: Workspace) -> RepositorySecrets:
    """Return the question for the repository Secret."""
    return RepositorySecrets(workspace.metadata.namespace, workspace.spec.source.repo_url)


def set_names(workspace: Workspace, project: Project | None) -> tuple[str, ...]:
    """Return the names of the VariableSets in force, each once."""
    inherited = project.spec.variable_set_ref if project is not None else ()
    return tuple(dict.fromkeys(ref.name for ref in (*inherited, *workspace.spec.variable_set_ref)))


def set_probe(workspace: Workspace, name: str) -> LiveGet:
    """Return the question for one VariableSet."""
    return LiveGet(VARIABLESETS, workspace.metadata.namespace, name)


def policies_probe(workspace: Workspace, project: Project | None) -> LiveList | None:
    """Return the question for the selected policies.

    None without a selector or with one that cannot be used, and where there is a plan already: it has been judged.
    """
    if workspace.status.phase in WITH_PLAN:
        return None
    selector = effective_selector(workspace, project).selector
    if selector is None:
        return None
    try:
        return LiveList(VALIDATING_POLICIES, "", str(compile_selector(selector)))
    except ValueError:
        return None


def stored_policies_probe(workspace: Workspace) -> LiveList:
    """Return the question for the ConfigMaps that hold policies of this and of earlier runs."""
    meta = workspace.metadata
    return LiveList(CONFIG_MAPS, meta.namespace, f"{WORKSPACE}={workspace_label(meta.name)}")


def events_probe(job: Job, pods: tuple[Pod, ...]) -> JobEvents:
    """Return the question for the Warning Events of a Job and its pod."""
    return JobEvents(job.metadata.namespace, job.metadata.uid, pods[0].metadata.uid if pods else "")
