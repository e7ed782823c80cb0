"""The file named by MAGOS_JOB_POD_CONFIG: it adds, it never overrides, and no mistake is swallowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.adapters.podconfig import parse_pod_config
from magos.api.kube import Resources
from magos.api.runnerpod import Stage
from magos.errors import ConfigurationError
from magos.reconcilers.workspace.pod.settings import PodConfig

FULL = """
resources:
  requests: {cpu: 100m, memory: 128Mi}
  limits: {memory: 1Gi}
imagePullSecrets: [{name: registry}]
nodeSelector: {disk: ssd}
tolerations: [{key: dedicated, operator: Exists, effect: NoSchedule, tolerationSeconds: 0}]
affinity: {nodeAffinity: {anything: [1, 2]}}
priorityClassName: high
env:
  - {name: HTTPS_PROXY, value: "http://proxy"}
  - {name: EMPTY, value: ""}
  - {name: TOKEN, valueFrom: {secretKeyRef: {name: cloud, key: token, optional: false}}}
envFrom: [{secretRef: {name: cloud}}]
volumes:
  - {name: keys, configMap: {name: release-keys}}
volumeMounts: [{name: keys, mountPath: /etc/magos/keys, readOnly: true}]
terminationGracePeriodSeconds: 600
"""


def test_everything_that_may_be_added_is_understood() -> None:
    config = parse_pod_config(FULL, "pod.yaml")
    assert config.termination_grace_period_seconds == 600
    assert [variable.name for variable in config.env] == ["HTTPS_PROXY", "EMPTY", "TOKEN"]
    assert config.volume_mounts[0].mount_path == "/etc/magos/keys"
    assert config.affinity == {"nodeAffinity": {"anything": [1, 2]}}


def test_resources_are_for_every_stage_or_for_one() -> None:
    text = "resources: {}\nstageResources: {terraform: {limits: {memory: 8Gi}}}"
    config = parse_pod_config(text, "pod.yaml")
    assert config.resources_of(Stage.TERRAFORM) == Resources(limits={"memory": "8Gi"})
    assert config.resources_of(Stage.FETCH) == Resources()


def test_sizes_of_volumes_are_moved_or_lifted_one_by_one() -> None:
    config = parse_pod_config("volumeSizes: {work: 20Gi, tmp-job: null}", "pod.yaml")
    assert config.size_of("work") == "20Gi"
    assert config.size_of("tmp-job") is None
    assert config.size_of("scratch") == "3Gi"


def test_an_empty_file_adds_nothing() -> None:
    assert parse_pod_config("", "pod.yaml") == PodConfig()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not YAML"),
        ("- a", "is not a pod configuration"),
        ("hostNetwork: true", "hostNetwork"),
        ("stageResources: {tofu: {}}", "tofu"),
        ("stageResources: {job: {request: {cpu: 1}}}", "stageResources.job.request"),
        ("volumeSizes: {policies: 1Gi}", "'policies', which is none of work, scratch, tmp-fetch"),
        ("volumeSizes: {work: much}", "volumeSizes.work: 'much' is not a quantity"),
        ("volumeSizes: {work: 0Gi}", "volumeSizes.work: '0Gi' is not a quantity"),
        ("env: [{name: A, valueFrm: {x: y}}]", r"unknown field env\[0\].valueFrm"),
        ("terminationGracePeriodSeconds: 60", "at least 120"),
        ("env: [{name: MAGOS_RUN_ID, value: x}]", "MAGOS_RUN_ID"),
        ("env: [{name: TF_VAR_x, value: x}]", "TF_VAR_x"),
        ("env: [{name: HOME, value: x}]", "HOME"),
        ("volumes: [{name: work, emptyDir: {}}]", "'work' is defined already"),
        ("volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]", "'a' is defined already"),
        ("volumeMounts: [{name: a, mountPath: /x}]", "not defined"),
        ("volumes: [{name: a, emptyDir: {}}]\nvolumeMounts: [{name: a, mountPath: x}]", "not an absolute path"),
        ("volumes: [{name: a, emptyDir: {}}]\nvolumeMounts: [{name: a, mountPath: /scratch/fetch}]", "folder of Magos"),
        ("volumes: [{name: a, emptyDir: {}}]\nvolumeMounts: [{name: a, mountPath: /}]", "folder of Magos"),
    ],
)
def test_a_mistake_is_one_line_that_names_file_and_field(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        parse_pod_config(text, "pod.yaml")
    assert "\n" not in str(caught.value)
    assert "pod.yaml" in str(caught.value)


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        parse_pod_config(text, "pod.yaml")
    except ConfigurationError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is fine, a stack trace is not
