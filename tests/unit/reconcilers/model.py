"""A model of the API server for tests of reconcilers: a pure state, and decisions applied to it.

Caches may lag behind the state, per kind; own writes are always seen, as the runtime's gate guarantees. A decision may
be cut off after any number of steps, as a crash would.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from magos.api.annotations import EXECUTION_ALLOWED
from magos.api.kube import (
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICE_ACCOUNT_METADATA,
    Job,
    JobManifest,
    ServiceAccountMetadata,
)
from magos.api.kube.config import MetaWithoutAnnotations
from magos.api.labels import RUNNER, WORKSPACE
from magos.api.meta import Kind, ObjectMeta, controller_of
from magos.api.phases import TERMINAL, WORKSPACE_TRANSITIONS, Phase, may_follow
from magos.api.reasons import KIND_REASONS, WORKSPACE_REASONS, Reason
from magos.api.status import NameReference
from magos.api.timestamps import format_time
from magos.api.workspace import WORKSPACES, Source, Terraform, Workspace, WorkspaceSpec, WorkspaceStatus
from magos.reconcilers import project as project_controller
from magos.reconcilers.effects import JobEvents, JobWarning, RepositorySecretReport, RepositorySecrets
from magos.reconcilers.members import BY_PROJECT
from magos.reconcilers.workspace.inputs.specification import specification_hash
from magos.reconcilers.workspace.machine import reconcile
from magos.reconcilers.workspace.observation import BY_WORKSPACE, observe
from magos.reconcilers.workspace.pod.settings import WorkspaceSettings
from magos.runtime.decision import (
    AddFinalizer,
    Create,
    Decision,
    Delete,
    Effect,
    Event,
    LiveGet,
    LiveList,
    PatchAnnotations,
    Query,
    QueryAnswer,
    QueryFailure,
    Refusal,
    Release,
    RemoveFinalizer,
    Request,
    StatusPatch,
    Trouble,
)

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NAMESPACE = "team-a"
NAME = "network"
SETTINGS = WorkspaceSettings(job_image="magos-job:test", refused_namespace="magos-system", verified_principals=True)
RUNNERS = ("magos-job", "other", "another", "special")
SHA = "a" * 40
OTHER_SHA = "b" * 40
LATER_SHA = "c" * 40


class Conflict(Exception):
    """A precondition did not hold; the pass ends and comes again."""


class Crash(Exception):
    """The process died here."""


class Refused(Exception):
    """The model's API server refuses for good."""

    def __init__(self, effect: Effect, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.refusal = Refusal(effect=effect, code=code, reason=reason, message=message)


class ModelView:
    """A ``View`` over a snapshot."""

    def __init__(
        self, objects: dict[str, dict[tuple[str, str], Any]], answers: dict[Query, QueryAnswer], refusal: Refusal | None
    ) -> None:
        self._objects = objects
        self._answers = answers
        self.refusal = refusal
        self.trouble: Trouble | None = None
        self.stale = False

    def get(self, kind: Kind[Any], namespace: str, name: str) -> Any:
        return self._objects.get(kind.resource, {}).get((namespace, name))

    def list(self, kind: Kind[Any], namespace: str | None = None) -> tuple[Any, ...]:
        items = sorted(self._objects.get(kind.resource, {}).items())
        return tuple(item for key, item in items if namespace in (None, key[0]))

    def by_index(self, kind: Kind[Any], index: str, value: str) -> tuple[Any, ...]:
        namespace, _, wanted = value.partition("/")
        found = self.list(kind, namespace)
        if index == BY_WORKSPACE:
            return tuple(each for each in found if each.metadata.labels.get(WORKSPACE) == wanted)
        assert index == BY_PROJECT
        return tuple(each for each in found if each.spec.project_ref.name == wanted)

    def answer(self, query: Query) -> QueryAnswer | None:
        return self._answers.get(query)


def workspace_manifest(name: str = NAME, **spec: Any) -> Workspace:
    """Return a Workspace as a user would write it."""
    fields: dict[str, Any] = {
        "project_ref": NameReference(name="platform"),
        "source": Source(repo_url="https://git.example.com/demo.git", target_revision="main"),
        "terraform": Terraform(version="1.9.8"),
    }
    return Workspace(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=WorkspaceSpec(**{**fields, **spec}))


class Model:
    """The cluster."""

    def __init__(self, settings: WorkspaceSettings = SETTINGS) -> None:
        self.now = START
        self.settings = settings
        self.state: dict[str, dict[tuple[str, str], Any]] = {}
        self.cache: dict[str, dict[tuple[str, str], Any]] = {}
        self.lagging: set[str] = set()
        self.versions = 0
        self.entropy = 0
        self.writes: list[str] = []
        self.events: list[Event] = []
        self.created_jobs: list[JobManifest] = []
        self.secrets = RepositorySecretReport()
        self.warnings: tuple[JobWarning, ...] = ()
        self.refusals: list[tuple[type[Any], str, int, str, str]] = []
        self.failing_probes: dict[type[Query], QueryFailure] = {}
        self.failing_kinds: dict[str, QueryFailure] = {}
        self.crash_after: int | None = None
        self.history: list[tuple[str | None, str]] = []
        for name in RUNNERS:
            self.put_account(name, "true")

    # --- state ----------------------------------------------------------------------------------------------------

    def put(self, kind: Kind[Any], item: Any) -> Any:
        """Store an object under a new version."""
        self.versions += 1
        meta = item.metadata
        fresh = replace(
            meta,
            resource_version=str(self.versions),
            uid=meta.uid or f"uid-{self.versions}",
            creation_timestamp=meta.creation_timestamp or format_time(self.now),
            generation=max(meta.generation, 1),
        )
        item = replace(item, metadata=fresh)
        self.state.setdefault(kind.resource, {})[meta.namespace, meta.name] = item
        return item

    def put_account(self, name: str, runner: str | None, namespace: str = NAMESPACE) -> None:
        """Store a ServiceAccount whose label for runs has this value, or that has no such label."""
        labels = {} if runner is None else {RUNNER: runner}
        meta = MetaWithoutAnnotations(name=name, namespace=namespace, labels=labels)
        self.put(SERVICE_ACCOUNT_METADATA, ServiceAccountMetadata(metadata=meta))

    def remove(self, kind: Kind[Any], name: str) -> None:
        """Let an object vanish, and what it owns."""
        item = self.state.get(kind.resource, {}).pop((NAMESPACE, name), None)
        if item is None:
            return
        for other in (JOBS, PODS, PERSISTENT_VOLUME_CLAIMS):
            for each in list(self.state.get(other.resource, {}).values()):
                owner = controller_of(each.metadata)
                if owner is not None and owner.uid == item.metadata.uid:
                    self._garbage(other, each)

    def _garbage(self, kind: Kind[Any], item: Any) -> None:
        if kind is PODS and not item.ended:
            meta = replace(item.metadata, deletion_timestamp=item.metadata.deletion_timestamp or format_time(self.now))
            self.put(PODS, replace(item, metadata=meta))
        else:
            self.remove(kind, item.metadata.name)

    def get(self, kind: Kind[Any], name: str) -> Any:
        return self.state.get(kind.resource, {}).get((NAMESPACE, name))

    def all(self, kind: Kind[Any]) -> list[Any]:
        return [item for _, item in sorted(self.state.get(kind.resource, {}).items())]

    @property
    def workspace(self) -> Workspace:
        found = self.get(WORKSPACES, NAME)
        assert isinstance(found, Workspace)
        return found

    def annotate(self, name: str = NAME, **values: str | None) -> None:
        """Set or remove Magos annotations of a Workspace: ``execution_allowed="true"``."""
        item = self.get(WORKSPACES, name)
        changed = {f"magosproject.io/{key.replace('_', '-')}": value for key, value in values.items()}
        merged = {k: v for k, v in {**item.metadata.annotations, **changed}.items() if v is not None}
        if merged != item.metadata.annotations:
            self.put(WORKSPACES, replace(item, metadata=replace(item.metadata, annotations=merged)))

    def edit(self, **spec: Any) -> None:
        """Change the Workspace's spec."""
        item = self.workspace
        fresh = replace(item.spec, **spec)
        if fresh != item.spec:
            meta = replace(item.metadata, generation=item.metadata.generation + 1)
            self.put(WORKSPACES, replace(item, spec=fresh, metadata=meta))

    def user_deletes(self, kind: Kind[Any], name: str) -> None:
        item = self.get(kind, name)
        if item is None:
            return
        if item.metadata.finalizers:
            self.put(kind, replace(item, metadata=replace(item.metadata, deletion_timestamp=format_time(self.now))))
        else:
            self.remove(kind, name)

    def sync(self) -> None:
        """Let the caches catch up, except those that lag."""
        for resource, items in self.state.items():
            if resource not in self.lagging:
                self.cache[resource] = dict(items)

    # --- passes ---------------------------------------------------------------------------------------------------

    def decide(
        self, name: str = NAME, answers: dict[Query, QueryAnswer] | None = None, refusal: Refusal | None = None
    ) -> Decision:
        """Return what the workspace controller decides now."""
        self.sync()
        self.entropy += 1
        view = ModelView(self.cache, answers or {}, refusal)
        request = Request(namespace=NAMESPACE, name=name)
        seen = observe(request, view, self.now, self.settings, self.entropy.to_bytes(4, "big"))
        decision = reconcile(seen)
        assert decision == reconcile(seen), "the same observation gave two decisions"
        return decision

    def decide_project(
        self, answers: dict[Query, QueryAnswer] | None = None, refusal: Refusal | None = None
    ) -> Decision:
        self.sync()
        view = ModelView(self.cache, answers or {}, refusal)
        seen = project_controller.observe(Request(namespace=NAMESPACE, name="platform"), view, self.now)
        return project_controller.reconcile(seen)

    def step(self, *, project: bool = False) -> Decision:
        """Do one pass with the passes that follow at once; return the last decision."""
        choose = self.decide_project if project else self.decide
        decision = choose()
        for _ in range(8):
            refusal = None
            try:
                self.apply(decision)
            except Conflict:
                return decision
            except Refused as refused:
                refusal = refused.refusal
            if refusal is None and not decision.queries:
                return decision
            answers = {} if refusal is not None else {query: self.answer(query) for query in decision.queries}
            decision = choose(answers=answers, refusal=refusal)
        raise AssertionError(f"passes follow each other without end: {decision}")

    def settle(self, *, project: bool = False, most: int = 20) -> None:
        """Reconcile until a pass changes nothing."""
        for _ in range(most):
            before = self.versions
            self.step(project=project)
            if self.versions == before:
                return
        raise AssertionError(f"no fixpoint after {most} passes: {self.history}")

    def answer(self, query: Query) -> QueryAnswer:
        kind = query.kind.resource if isinstance(query, LiveGet | LiveList) else ""
        failure = self.failing_probes.get(type(query)) or self.failing_kinds.get(kind)
        if failure is not None:
            return QueryAnswer(failure=failure, at=self.now)
        match query:
            case LiveGet():
                return QueryAnswer(value=self.get(query.kind, query.name), at=self.now)
            case LiveList():
                key, _, wanted = query.selector.partition("=")
                assert not key or wanted, "the model understands key=value alone"
                found = [each for each in self.all(query.kind) if query.namespace in ("", each.metadata.namespace)]
                chosen = (each for each in found if not key or each.metadata.labels.get(key) == wanted)
                return QueryAnswer(value=tuple(chosen), at=self.now)
            case RepositorySecrets():
                return QueryAnswer(value=self.secrets, at=self.now)
            case JobEvents():
                return QueryAnswer(value=self.warnings, at=self.now)
        raise AssertionError(f"nobody answers {query}")

    def apply(self, decision: Decision) -> None:
        """Carry out a decision in the order rule; ``crash_after`` steps the process dies."""
        steps: list[StatusPatch | Effect] = [*([decision.status] if decision.status else []), *decision.effects]
        moved: dict[str, str] = {}
        for number, step in enumerate(steps):
            if self.crash_after is not None and number >= self.crash_after:
                raise Crash
            self._carry_out(step, moved)
        self.events += decision.events

    def _carry_out(self, step: StatusPatch | Effect, moved: dict[str, str]) -> None:
        for type_, resource, code, reason, message in self.refusals:
            if isinstance(step, type_) and step.kind.resource == resource:
                raise Refused(step, code, reason, message)
        match step:
            case StatusPatch():
                self._write_status(step, moved)
            case Create():
                self._create(step, moved)
            case Delete():
                found = self.get(step.kind, step.name)
                if found is not None and found.metadata.uid == step.uid:
                    self.user_deletes(step.kind, step.name)
                    self._wrote(step.kind, "delete")
            case PatchAnnotations():
                self._annotate(step, moved)
            case Release():
                self._release(step, moved)
            case AddFinalizer():
                found = self._judged(step.kind, step.name, step.resource_version, moved)
                meta = replace(found.metadata, finalizers=(*found.metadata.finalizers, step.finalizer))
                self._store(step.kind, replace(found, metadata=meta), moved)
            case RemoveFinalizer():
                found = self._judged(step.kind, step.name, step.resource_version, moved)
                rest = tuple(each for each in found.metadata.finalizers if each != step.finalizer)
                stored = self._store(
                    step.kind, replace(found, metadata=replace(found.metadata, finalizers=rest)), moved
                )
                if not rest and stored.metadata.deletion_timestamp is not None:
                    self.remove(step.kind, step.name)

    def _annotate(self, step: PatchAnnotations, moved: dict[str, str]) -> None:
        found = self._judged(step.kind, step.name, step.resource_version, moved)
        assert found.metadata.uid == step.uid
        merged = {**found.metadata.annotations, **step.annotations}
        fresh = {key: value for key, value in merged.items() if value is not None}
        if fresh != found.metadata.annotations:
            self._store(step.kind, replace(found, metadata=replace(found.metadata, annotations=fresh)), moved)

    def _release(self, step: Release, moved: dict[str, str]) -> None:
        found = self._judged(step.kind, step.name, step.resource_version, moved)
        assert found.metadata.uid == step.uid
        self._judged(step.unchanged.kind, step.unchanged.name, step.unchanged.resource_version, moved)
        meta = replace(found.metadata, annotations={**found.metadata.annotations, **step.annotations})
        self._store(step.kind, replace(found, metadata=meta, spec=replace(found.spec, suspend=False)), moved)

    def _judged(self, kind: Kind[Any], name: str, version: str, moved: dict[str, str]) -> Any:
        found = self.get(kind, name)
        expected = moved.get(version, version)
        if found is None or (version and found.metadata.resource_version != expected):
            raise Conflict
        return found

    def _store(self, kind: Kind[Any], item: Any, moved: dict[str, str]) -> Any:
        before = item.metadata.resource_version
        stored = self.put(kind, item)
        for first, last in list(moved.items()):
            if last == before:
                moved[first] = stored.metadata.resource_version
        moved[before] = stored.metadata.resource_version
        self._wrote(kind, "patch")
        return stored

    def _write_status(self, patch: StatusPatch, moved: dict[str, str]) -> None:
        found = self._judged(patch.kind, patch.name, patch.resource_version, moved)
        assert found.status == patch.observed
        if patch.kind is WORKSPACES:
            before, after = found.status.phase, patch.desired.phase
            if before not in WORKSPACE_TRANSITIONS or (
                before is Phase.DELETING and found.metadata.deletion_timestamp is None
            ):
                before = None  # somebody else has written it: as good as none
            assert may_follow(before, after), f"{before} -> {after}"
            assert Reason(patch.desired.reason) in WORKSPACE_REASONS[after], (after, patch.desired.reason)
            assert len(patch.desired.message) <= 1024
            _speaks_about_its_generation(found, patch.desired)
            self.history.append((after, patch.desired.reason))
        elif patch.kind.name in KIND_REASONS:
            assert (patch.desired.phase, patch.desired.reason) in KIND_REASONS[patch.kind.name]
        self._store(patch.kind, replace(found, status=patch.desired), moved)

    def _create(self, effect: Create, moved: dict[str, str]) -> None:
        if effect.unchanged is not None:
            self._judged(WORKSPACES, effect.unchanged.name, effect.unchanged.resource_version, moved)
        manifest = effect.manifest
        existing = self.get(effect.kind, manifest.metadata.name)
        if existing is not None:
            ours, theirs = controller_of(manifest.metadata), controller_of(existing.metadata)
            if ours is None or theirs is None or ours.uid != theirs.uid:
                raise Refused(effect, 409, "AlreadyExists", f"{manifest.metadata.name} already exists")
            return
        if isinstance(manifest, JobManifest):
            self._check_permission(manifest)
            self._check_identity(manifest)
            self.created_jobs.append(manifest)
            manifest = msgspec.json.decode(msgspec.json.encode(manifest), type=Job)
        self.put(effect.kind, manifest)
        self._wrote(effect.kind, "create")

    def _check_permission(self, manifest: JobManifest) -> None:
        """I1 and I4 at the moment of creation."""
        owner = controller_of(manifest.metadata)
        assert owner is not None
        live = self.get(WORKSPACES, owner.name)
        assert live.metadata.uid == owner.uid
        assert live.metadata.annotations.get(EXECUTION_ALLOWED) == "true"
        assert live.metadata.deletion_timestamp is None
        label = manifest.metadata.labels[WORKSPACE]
        assert not [pod for pod in self.all(PODS) if pod.metadata.labels.get(WORKSPACE) == label and not pod.ended]

    def _check_identity(self, manifest: JobManifest) -> None:
        """No run takes an account that is there for something else."""
        account = self.get(SERVICE_ACCOUNT_METADATA, manifest.spec.template.spec.service_account_name)
        assert account is not None
        assert account.metadata.labels.get(RUNNER) == "true"
        assert manifest.metadata.namespace != self.settings.refused_namespace

    def _wrote(self, kind: Kind[Any], verb: str) -> None:
        self.writes.append(f"{verb} {kind.plural}")
        self.cache[kind.resource] = dict(self.state.get(kind.resource, {}))  # own writes are seen


def _speaks_about_its_generation(found: Workspace, status: WorkspaceStatus) -> None:
    """Nobody is told "ready" or "failed" about a spec that no run has seen (F82)."""
    run = status.current_run
    ended = status.phase in TERMINAL and run is not None and run.plan_job
    if ended and run is not None and status.observed_generation == found.metadata.generation:
        assert run.spec_hash.partition("/")[0] == specification_hash(found, None).partition("/")[0]
