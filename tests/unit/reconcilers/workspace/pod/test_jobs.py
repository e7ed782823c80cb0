"""The Job and the claim that are created (spec §5.2, §5.4, §5.5)."""

from typing import Any

import msgspec
import pytest

from magos.api.annotations import RECORD
from magos.api.kube import (
    ConfigMapEnvSource,
    Container,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    JobManifest,
    KeySelector,
    Resources,
    SecretEnvSource,
)
from magos.api.labels import JOB_TYPE, RUN_ID, WORKSPACE, is_label_value
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.runnerpod import POD_VOLUMES, REDACT, Stage
from magos.api.tool import Distribution
from magos.api.workspace import PhaseOptions, Source, Terraform
from magos.ids import digest_of
from magos.reconcilers.effects import RepositorySecretReport
from magos.reconcilers.workspace.pod.environment import JobPlan
from magos.reconcilers.workspace.pod.manifest import claim_manifest, job_manifest
from magos.reconcilers.workspace.pod.record import JobRecord, decode_record
from magos.reconcilers.workspace.pod.settings import (
    DEFAULT_RESOURCES,
    DEFAULT_VOLUME_SIZES,
    PodConfig,
    WorkspaceSettings,
)
from tests.unit.reconcilers.model import NAMESPACE, SETTINGS, SHA, workspace_manifest
from tests.unit.reconcilers.results import environment_of

RUN = "20260102T030405-0a1b2c3d"
DIGEST = digest_of(b"plan")
ANONYMOUS = RepositorySecretReport()
TMP = "/tmp"  # noqa: S108 - a path inside the container


def make(
    job_type: JobType = JobType.PLAN,
    *,
    name: str = "network",
    settings: WorkspaceSettings = SETTINGS,
    secret: RepositorySecretReport = ANONYMOUS,
    log_level: str = "",
    variables: tuple[EnvVar, ...] = (),
    **spec: Any,
) -> JobManifest:
    workspace = workspace_manifest(name, **spec)
    workspace = msgspec.structs.replace(workspace, metadata=ObjectMeta(name=name, namespace=NAMESPACE, uid="ws-uid"))
    plan = JobPlan(
        job_type=job_type,
        run_id=RUN,
        revision=SHA,
        plan_digest=DIGEST if job_type is JobType.APPLY else "",
        log_level=log_level,
        secret=secret,
        passed_on=settings.runner_environment,
        variables=variables,
    )
    record = JobRecord(
        run_id=RUN,
        job_type=job_type,
        trigger="revision",
        project="platform",
        target_revision="main",
        source_key="0123456789abcdef",
        spec_hash="x",
        revision=SHA,
    )
    return job_manifest(workspace, plan, record, settings)


def plain_of(manifest: object) -> Any:
    """The manifest as the API server gets it."""
    return msgspec.json.decode(msgspec.json.encode(manifest))


def containers(job: JobManifest) -> dict[str, Container]:
    spec = job.spec.template.spec
    return {each.name: each for each in (*spec.init_containers, *spec.containers)}


def mounts(job: JobManifest, container: str) -> dict[str, bool]:
    """Path to read-only."""
    return {mount.mount_path: mount.read_only for mount in containers(job)[container].volume_mounts}


def test_the_job_is_one_pod_that_is_never_restarted() -> None:
    plain = plain_of(make())
    assert plain["metadata"]["name"].startswith("network-plan-")
    assert plain["metadata"]["labels"] == {WORKSPACE: "network", JOB_TYPE: "plan", RUN_ID: RUN}
    [owner] = plain["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Workspace", "ws-uid", True)
    spec = plain["spec"]
    assert spec["template"]["metadata"]["labels"] == plain["metadata"]["labels"]
    assert {key: value for key, value in spec.items() if key != "template"} == {
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
        "podReplacementPolicy": "Failed",
        "activeDeadlineSeconds": 86400,
    }
    pod = spec["template"]["spec"]
    assert (pod["restartPolicy"], pod["serviceAccountName"]) == ("Never", "magos-job")
    assert (pod["enableServiceLinks"], pod["automountServiceAccountToken"]) == (False, False)
    assert pod["terminationGracePeriodSeconds"] == 300


def test_the_stages_come_in_order_and_render_only_plans() -> None:
    plan, apply = make(), make(JobType.APPLY)
    assert [each.name for each in plan.spec.template.spec.init_containers] == ["fetch", "terraform", "render"]
    assert [each.name for each in apply.spec.template.spec.init_containers] == ["fetch", "terraform"]
    for job in (plan, apply):
        assert [each.name for each in job.spec.template.spec.containers] == ["job"]
        for name, container in containers(job).items():
            assert container.command == ("magos-job", name)
            assert container.termination_message_policy == "File"
            assert container.termination_message_path == "/dev/termination-log"


def test_every_container_has_requests_and_limits_so_that_a_quota_accepts_it() -> None:
    for job in (make(), make(JobType.APPLY)):
        for name, container in containers(job).items():
            for each in (container.resources.requests, container.resources.limits):
                assert each.keys() == {"cpu", "memory"}, name


def test_resources_of_an_administrator_stand_in_the_place_of_the_defaults() -> None:
    mine, small = Resources(limits={"memory": "8Gi"}), Resources(requests={"cpu": "10m"})
    general = PodConfig(resources=mine, stage_resources={Stage.FETCH: small})
    assert [general.resources_of(stage) for stage in Stage] == [small, mine, mine, mine]
    single = PodConfig(stage_resources={Stage.TERRAFORM: Resources()})
    assert single.resources_of(Stage.TERRAFORM) == Resources()
    assert single.resources_of(Stage.JOB) == DEFAULT_RESOURCES[Stage.JOB]


def test_every_volume_that_ends_with_the_pod_has_a_limit_which_an_administrator_may_move_or_lift() -> None:
    assert DEFAULT_VOLUME_SIZES.keys() == set(POD_VOLUMES)
    sizes: dict[str, str | None] = {"work": "20Gi", "tmp-terraform": None}
    settings = msgspec.structs.replace(SETTINGS, pod=PodConfig(volume_sizes=sizes))
    for phase in JobType:
        for given, expected in ((SETTINGS, DEFAULT_VOLUME_SIZES), (settings, {**DEFAULT_VOLUME_SIZES, **sizes})):
            volumes = make(phase, settings=given).spec.template.spec.volumes
            limits = {each.name: each.empty_dir.size_limit for each in volumes if each.empty_dir is not None}
            assert limits == {name: expected[name] for name in limits}
            assert {"work", "scratch", "tmp-job"} <= limits.keys()


def test_every_container_is_restricted() -> None:
    for job in (make(), make(JobType.APPLY)):
        pod = plain_of(job.spec.template.spec)
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
        for container in (*pod["initContainers"], *pod["containers"]):
            assert container["securityContext"] == {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            }


def test_each_stage_sees_its_own_scratch_and_earlier_ones_read_only() -> None:
    job = make()
    assert {p: ro for p, ro in mounts(job, "fetch").items() if "scratch" in p} == {"/scratch/fetch": False}
    assert {p: ro for p, ro in mounts(job, "terraform").items() if "scratch" in p} == {
        "/scratch/fetch": True,
        "/scratch/terraform": False,
    }
    assert {p: ro for p, ro in mounts(job, "job").items() if "scratch" in p} == {
        "/scratch/fetch": True,
        "/scratch/terraform": True,
        "/scratch/render": True,
    }


def test_only_terraform_has_the_token() -> None:
    token = "/var/run/secrets/kubernetes.io/serviceaccount"
    for job in (make(), make(JobType.APPLY)):
        assert [name for name in containers(job) if token in mounts(job, name)] == ["terraform"]


def test_onlookers_can_change_neither_the_volume_nor_the_sources() -> None:
    for stage in ("render", "job"):
        seen = mounts(make(), stage)
        assert (seen["/workspace-data"], seen["/work"]) == (True, True)
    for stage in ("fetch", "terraform"):
        seen = mounts(make(), stage)
        assert (seen["/workspace-data"], seen["/work"]) == (False, False)


def test_the_tool_is_read_only_where_code_of_the_configuration_runs() -> None:
    for job in (make(), make(JobType.APPLY)):
        [tool] = [each for each in containers(job)["terraform"].volume_mounts if each.mount_path == "/work/tool"]
        assert (tool.name, tool.sub_path, tool.read_only) == ("work", "tool", True)
        assert "/work/tool" not in mounts(job, "fetch")
    assert mounts(make(), "render")["/work"]


def test_no_two_containers_share_a_tmp() -> None:
    used = [m.name for c in containers(make()).values() for m in c.volume_mounts if m.mount_path == TMP]
    assert len(set(used)) == len(used) == 4


def test_the_environment_of_a_plan_and_of_an_apply() -> None:
    terraform = Terraform(version="1.9.8", distribution=Distribution.OPENTOFU, tfvars_path="env/prod.tfvars")
    source = Source(repo_url="https://git.example.com/r.git", target_revision="main", path="infra")
    settings = msgspec.structs.replace(SETTINGS, runner_environment=(("MAGOS_OPENTOFU_MIRROR", "http://mirror"),))
    job = make(JobType.APPLY, terraform=terraform, source=source, settings=settings, log_level="DEBUG")
    expected = {
        "MAGOS_JOB_TYPE": "apply",
        "MAGOS_RUN_ID": RUN,
        "MAGOS_NAMESPACE": NAMESPACE,
        "MAGOS_WORKSPACE": "network",
        "PROJECT_REF": "platform",
        "REPO_URL": "https://git.example.com/r.git",
        "TARGET_REVISION": "main",
        "TF_PATH": "infra",
        "TF_VERSION": "1.9.8",
        "MAGOS_TF_DISTRIBUTION": "opentofu",
        "MAGOS_PLAN_FILE": f"/workspace-data/runs/{RUN}/run.tfplan",
        "MAGOS_TERMINATION_GRACE_SECONDS": "300",
        "MAGOS_REVISION": SHA,
        "MAGOS_PLAN_DIGEST": DIGEST,
        "MAGOS_TFVARS_FILE": "env/prod.tfvars",
        "TF_PLUGIN_CACHE_DIR": "/workspace-data/plugin-cache",
        "TF_IN_AUTOMATION": "1",
        "TF_INPUT": "0",
        "HOME": f"{TMP}/home",
        "MAGOS_OPENTOFU_MIRROR": "http://mirror",
    }
    assert {name: v.value for name, v in environment_of(job, "fetch").items()} == expected
    assert {name: v.value for name, v in environment_of(job, "terraform").items()} == {**expected, "TF_LOG": "DEBUG"}
    assert "MAGOS_PLAN_DIGEST" not in environment_of(make(), "terraform")


def test_what_a_user_wrote_reaches_the_stage_unexpanded() -> None:
    source = Source(repo_url="https://git.example.com/$(HOME)/a$$b.git", target_revision="main")
    assert environment_of(make(source=source), "fetch")["REPO_URL"].value == (
        "https://git.example.com/$$(HOME)/a$$$$b.git"
    )


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (("password", "sshPrivateKey", "username"), {"GIT_SSH_PRIVATE_KEY"}),
        (("password", "username"), {"GIT_USERNAME", "GIT_PASSWORD"}),
        (("caBundle", "known_hosts"), {"GIT_CA_BUNDLE", "GIT_KNOWN_HOSTS"}),
        (("insecureIgnoreHostKey",), {"GIT_INSECURE_IGNORE_HOST_KEY"}),
        ((), set()),
    ],
)
def test_git_credentials_reach_fetch_alone_and_by_reference(keys: tuple[str, ...], expected: set[str]) -> None:
    job = make(secret=RepositorySecretReport(names=("creds",), keys=keys))
    found = {n: v for n, v in environment_of(job, "fetch").items() if n.startswith("GIT_")}
    assert set(found) == expected
    assert all(variable.value_from is not None for variable in found.values())
    others = [name for name in containers(job) if name != "fetch"]
    assert [name for name in others if any(each.startswith("GIT_") for each in environment_of(job, name))] == []


def test_annotations_and_deadline_come_from_the_spec_and_eviction_is_declined() -> None:
    job = make(
        annotations={"a": "1", "b": "1", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
        plan=PhaseOptions(annotations={"b": "2"}, timeout_seconds=60),
    )
    assert job.spec.active_deadline_seconds == 60
    assert job.spec.template.metadata.annotations == {
        "a": "1",
        "b": "2",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }


def test_credentials_of_the_pod_configuration_reach_terraform_alone() -> None:
    secret = EnvVarSource(secret_key_ref=KeySelector(name="cloud", key="token"))
    config = PodConfig(
        env=(EnvVar(name="HTTPS_PROXY", value="http://proxy"), EnvVar(name="CLOUD_TOKEN", value_from=secret)),
        env_from=(EnvFromSource(secret_ref=SecretEnvSource(name="cloud")),),
    )
    job = make(settings=msgspec.structs.replace(SETTINGS, pod=config))
    for name, container in containers(job).items():
        assert environment_of(job, name)["HTTPS_PROXY"].value == "http://proxy"
        assert ("CLOUD_TOKEN" in environment_of(job, name)) == (name == "terraform")
        assert bool(container.env_from) == (name == "terraform")


def test_what_a_pod_configuration_takes_from_secrets_is_to_be_masked_and_nothing_else() -> None:
    secret = EnvVarSource(secret_key_ref=KeySelector(name="cloud", key="token"))
    region = EnvVarSource(config_map_key_ref=KeySelector(name="cloud", key="region"))
    config = PodConfig(
        env=(
            EnvVar(name="CLOUD_TOKEN", value_from=secret),
            EnvVar(name="CLOUD_REGION", value_from=region),
            EnvVar(name="PLAIN", value="x"),
        ),
        env_from=(
            EnvFromSource(secret_ref=SecretEnvSource(name="one", optional=True)),
            EnvFromSource(prefix="B_", secret_ref=SecretEnvSource(name="two")),
            EnvFromSource(config_map_ref=ConfigMapEnvSource(name="three")),
        ),
    )
    settings = msgspec.structs.replace(SETTINGS, pod=config)
    given = (EnvVar(name="TF_VAR_password", value_from=secret), EnvVar(name=REDACT, value="TF_VAR_password"))
    job = make(settings=settings, variables=given)
    environment = containers(job)["terraform"].env
    assert [each.value for each in environment if each.name == REDACT] == ["TF_VAR_password,CLOUD_TOKEN"]
    assert environment_of(make(settings=settings), "terraform")[REDACT].value == "CLOUD_TOKEN"
    assert REDACT not in environment_of(job, "fetch")
    # They have no variables, but the plan, which holds the values.
    assert {name: environment_of(job, name)[REDACT].value for name in ("render", "job")} == dict.fromkeys(
        ("render", "job"), "TF_VAR_password"
    )
    assert not [name for name in environment_of(job, "job") if name.startswith("TF_VAR_")]
    # The keys of a whole Secret are unknown: the stage gets them once more under a name that says what they are.
    assert containers(job)["terraform"].env_from == (
        *config.env_from,
        EnvFromSource(prefix="MAGOS_SECRET_", secret_ref=SecretEnvSource(name="one", optional=True)),
        EnvFromSource(prefix="MAGOS_SECRET_B_", secret_ref=SecretEnvSource(name="two")),
    )


def test_two_long_names_that_differ_at_the_end_share_nothing() -> None:
    one, other = make(name="n" * 89 + "a"), make(name="n" * 89 + "b")
    for job in (one, other):
        assert len(job.metadata.name) <= 63
        assert all(map(is_label_value, job.metadata.labels.values()))
    assert one.metadata.name != other.metadata.name
    assert one.metadata.labels[WORKSPACE] != other.metadata.labels[WORKSPACE]


def test_the_record_says_what_the_job_was_created_with() -> None:
    record = decode_record(make().metadata.annotations[RECORD])
    assert record is not None
    assert (record.run_id, record.revision, record.trigger) == (RUN, SHA, "revision")


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"runID": 5}', "\ud800", '{"x":' + "[" * 90_000])
def test_a_record_that_was_tampered_with_is_none(text: str) -> None:
    assert decode_record(text) is None


def test_the_claim_is_of_the_configured_size_and_class() -> None:
    settings = msgspec.structs.replace(SETTINGS, pvc_size="5Gi", pvc_storage_class="fast")
    plain = plain_of(claim_manifest(workspace_manifest(), settings))
    assert plain["metadata"]["name"] == "network-data"
    assert plain["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
        "storageClassName": "fast",
    }
