"""A runner pod as its node runs it, without a cluster: the Job's own containers, each as often as a test likes.

The manifest is the workspace controller's, so mounts, user and environment are those of real pods.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import anyio
import msgspec
from msgspec.structs import replace

from magos.api.kube import (
    Container,
    EnvVar,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PodManifest,
    VolumeResources,
)
from magos.api.meta import ObjectMeta
from magos.api.names import JobType
from magos.api.result import Result, decode_result
from magos.api.runnerpod import Stage
from magos.api.selectors import Selector
from magos.api.status import NameReference
from magos.api.tool import Distribution
from magos.api.workspace import Source, Terraform, Workspace, WorkspaceSpec
from magos.local.node.containers import ContainerRun, PodFolder, image_environment
from magos.local.node.sources import PodSources, environment
from magos.local.node.volumes import PodVolumes
from magos.local.programs.recipes import TOFU_VERSION
from magos.reconcilers.effects import RepositorySecretReport
from magos.reconcilers.workspace.inputs.policies import SelectedPolicies
from magos.reconcilers.workspace.pod.environment import JobPlan
from magos.reconcilers.workspace.pod.manifest import job_manifest
from magos.reconcilers.workspace.pod.record import JobRecord
from magos.reconcilers.workspace.pod.settings import PodConfig, WorkspaceSettings
from magos.runner.status import StageStatus
from tests.e2e.runner.pod import RUN

__all__ = ["NodePod"]

_CLAIM = "claim"
_REPOSITORY = "repository"


class _Sources(PodSources):
    """What the pod refers to, without an API server."""

    def __init__(self, policies: Mapping[str, str], secrets: Mapping[str, Mapping[str, str]], token: str) -> None:
        self._policies = policies
        self._secrets = secrets
        self._token = token

    async def claim(self, name: str) -> PersistentVolumeClaim:
        spec = PersistentVolumeClaimSpec(access_modes=(), resources=VolumeResources(requests={}))
        return PersistentVolumeClaim(metadata=ObjectMeta(name=name, uid=_CLAIM), spec=spec)

    async def config_map(self, name: str, *, optional: bool) -> Mapping[str, bytes]:  # noqa: ARG002
        texts = self._policies if "policies" in name else {"ca.crt": "none"}
        return {key: text.encode() for key, text in texts.items()}

    async def secret(self, name: str, *, optional: bool) -> Mapping[str, bytes]:  # noqa: ARG002
        return {key: text.encode() for key, text in self._secrets[name].items()}

    async def token(self, pod: PodManifest, audience: str, seconds: int | None) -> bytes:  # noqa: ARG002
        return self._token.encode()


class NodePod:
    """The plan pod of a Workspace, then its apply pod.

    The repository lies on the volume, in folder ``repository``, or at ``repo_url``. ``secret`` is the repository
    Secret, None without one. ``policies`` are the files of the policies that were selected, None without a selector.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str],
        *,
        policies: Mapping[str, str] | None = None,
        variables: tuple[EnvVar, ...] = (),
        repo_url: str = "file:///workspace-data/repository",
        secret: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.volume = folder / "claims" / _CLAIM
        for path in (folder, folder / "claims", self.volume):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o777)
        self.policies = policies
        self.secrets: dict[str, Mapping[str, str]] = {} if secret is None else {_REPOSITORY: secret}
        """All Secrets that the pod refers to, by name; the repository Secret if there is one."""
        self.config = PodConfig()
        self.token = "token"
        self.programs: tuple[Path, ...] = ()
        """What the image has besides Magos."""
        self._planned: Result | None = None
        self._settings = tuple(settings.items())
        self.variables = variables
        self._repo_url = repo_url

    @property
    def scratch(self) -> Path:
        return self.folder / "volumes" / "scratch"

    @property
    def plan_json(self) -> Path:
        return self.scratch / "render" / "plan.json"

    def log(self, stage: Stage) -> str:
        path = PodFolder(self.folder).log(stage)
        return path.read_text(errors="replace") if path.exists() else ""

    def status(self, stage: Stage) -> StageStatus:
        return msgspec.json.decode((self.scratch / stage / "status.json").read_bytes(), type=StageStatus)

    def stage(self, stage: Stage) -> int:
        """Run one container to its end; return its exit code."""
        return anyio.run(self._run, stage)

    def result(self) -> Result:
        """Run ``job``; return what it reports."""
        code = self.stage(Stage.JOB)
        found = decode_result(PodFolder(self.folder).termination(Stage.JOB).read_bytes())
        assert found.exit_code == code, self.log(Stage.JOB)
        return found

    def fresh(self, planned: Result | None = None) -> None:
        """Become another pod on the same volume: one that plans, or one that applies what was ``planned``."""
        self._planned = planned
        shutil.rmtree(self.folder / "volumes")

    async def _run(self, stage: Stage) -> int:
        pod = self._manifest()
        sources = _Sources(self.policies or {}, self.secrets, self.token)
        for written in (volume.name for volume in pod.spec.volumes if volume.empty_dir is None):
            shutil.rmtree(self.folder / "volumes" / written, ignore_errors=True)  # of the container before
        volumes = PodVolumes(pod, self.folder, self.folder, sources)
        await volumes.prepare()
        [container] = [each for each in (*pod.spec.init_containers, *pod.spec.containers) if each.name == stage]
        return await self._contain(pod, container, sources, volumes)

    async def _contain(self, pod: PodManifest, container: Container, sources: PodSources, volumes: PodVolumes) -> int:
        run = ContainerRun(pod, container, PodFolder(self.folder, self.programs))
        try:
            await run.start(await environment(pod, container, sources, image_environment()), volumes)
            with anyio.fail_after(120):
                ended = await run.wait()
        finally:
            await run.close()
        assert ended.terminated is not None
        return ended.terminated.exit_code

    def _manifest(self) -> PodManifest:
        settings = WorkspaceSettings(job_image="any", pod=self.config, runner_environment=self._settings)
        login = self.secrets.get(_REPOSITORY, {})
        meta = ObjectMeta(name="net", namespace="team", uid="workspace")
        spec = WorkspaceSpec(
            project_ref=NameReference(name="shop"),
            source=Source(repo_url=self._repo_url, target_revision="main"),
            terraform=Terraform(version=TOFU_VERSION, distribution=Distribution.OPENTOFU),
        )
        selected = None if self.policies is None else _selected(self.policies)
        phase = JobType.PLAN if self._planned is None else JobType.APPLY
        plan = JobPlan(
            job_type=phase,
            run_id=RUN,
            revision="" if self._planned is None else self._planned.revision,
            plan_digest="" if self._planned is None else self._planned.plan_digest,
            passed_on=self._settings,
            variables=self.variables,
            policies=selected,
            secret=RepositorySecretReport(names=(_REPOSITORY,) if login else (), keys=tuple(login)),
        )
        record = JobRecord(
            run_id=RUN,
            job_type=phase,
            trigger="revision",
            project="shop",
            target_revision="main",
            source_key="0123456789abcdef",
            spec_hash="x",
        )
        job = job_manifest(Workspace(metadata=meta, spec=spec), plan, record, settings)
        return PodManifest(metadata=replace(meta, name="net-plan"), spec=job.spec.template.spec)


def _selected(files: Mapping[str, str]) -> SelectedPolicies:
    return SelectedPolicies(selector=Selector(), files=files)
