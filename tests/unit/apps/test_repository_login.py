"""Whoever reads a repository Secret logs in alike: the pod that the controller builds, the runner in it, RefWatcher."""

from collections.abc import Mapping
from itertools import combinations

import pytest

from magos.adapters.repositoryaccess import SecretProblem, credentials_of
from magos.api import repositorysecret
from magos.api.kube import Secret
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.runnerpod import Stage
from magos.git.credentials import Credentials
from magos.reconcilers.effects import RepositorySecretReport
from magos.reconcilers.workspace.handlers.starting.admission import judge_secret
from magos.reconcilers.workspace.pod.environment import JobPlan, stage_environment
from magos.runner import config
from tests.unit.reconcilers.model import workspace_manifest

VALUES = {key: f"the {key}" for key in repositorysecret.KEYS} | {repositorysecret.INSECURE_IGNORE_HOST_KEY: "true"}
SUBSETS = [keys for size in range(len(VALUES) + 1) for keys in combinations(sorted(VALUES), size)]


def secret_of(keys: tuple[str, ...]) -> Secret:
    data = {key: VALUES[key].encode() for key in keys} | {repositorysecret.URL: b"https://example.org/r.git"}
    return Secret(metadata=ObjectMeta(name="repository", namespace="team"), data=data)


def report_of(keys: tuple[str, ...]) -> RepositorySecretReport:
    return RepositorySecretReport(names=("repository",), keys=keys)


def kubelet(keys: tuple[str, ...]) -> Mapping[str, str]:
    """Return the environment of stage ``fetch`` as a kubelet makes it."""
    plan = JobPlan(job_type=JobType.PLAN, run_id="20260101T000000-00000000", secret=report_of(keys))
    environment: dict[str, str] = {}
    for each in stage_environment(workspace_manifest(), plan, Stage.FETCH):
        reference = each.value_from.secret_key_ref if each.value_from is not None else None
        environment[each.name] = VALUES[reference.key] if reference is not None else each.value or ""
    return environment


def login(credentials: Credentials) -> tuple[object, ...]:
    trust = (credentials.known_hosts, credentials.ca_bundle, credentials.insecure_ignore_host_key)
    return credentials.ssh_private_key, credentials.basic_auth(), *trust


@pytest.mark.parametrize("keys", SUBSETS, ids="+".join)
def test_runner_and_refwatcher_log_in_alike_whatever_keys_a_secret_has(keys: tuple[str, ...]) -> None:
    if judge_secret(report_of(keys)) is not None:
        with pytest.raises(SecretProblem):
            credentials_of(secret_of(keys))
        return
    credentials = config._credentials(kubelet(keys))
    assert login(credentials) == login(credentials_of(secret_of(keys)))
    values = {value for value in (credentials.ssh_private_key, credentials.password) if value}
    assert len(values) == (1 if repositorysecret.login_keys(keys) else 0)
