"""The volumes of a pod as folders of this machine.

A claim is a folder named by the claim's UID, so it outlives pods and never serves a recreated claim of the same name;
an ``emptyDir`` ends with the pod. Files of Secrets, ConfigMaps and tokens are written once, before the first container.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import anyio

from magos.api.kube import KeyToPath, PodManifest, ProjectedSource, Volume, VolumeMount
from magos.local.node.sources import PodConfigError, PodSources, pod_field

__all__ = ["PodVolumes", "claim_folder", "remove_claim"]

_FILE_MODE = 0o644


def claim_folder(root: Path, uid: str) -> Path:
    """Where the content of a claim lies."""
    return root / "claims" / uid


def remove_claim(root: Path, uid: str) -> None:
    """Remove the content of a claim that does not exist any more."""
    shutil.rmtree(claim_folder(root, uid), ignore_errors=True)


class PodVolumes:
    """Prepares the volumes of one pod below ``folder``; claims lie below ``root``."""

    def __init__(self, pod: PodManifest, root: Path, folder: Path, sources: PodSources) -> None:
        self._pod = pod
        self._root = root
        self._folder = folder / "volumes"
        self._sources = sources
        self._paths: dict[str, Path] = {}
        context = pod.spec.security_context
        self._group = context.fs_group if context is not None else None

    async def prepare(self) -> None:
        """Make every volume ready; may be repeated after a ``PodConfigError``."""
        for volume in self._pod.spec.volumes:
            if volume.name not in self._paths:
                self._paths[volume.name] = await self._one(volume)

    def mount_source(self, mount: VolumeMount) -> Path:
        """Return the path behind a mount, creating a ``subPath`` that does not exist."""
        source = self._paths.get(mount.name)
        if source is None:
            raise PodConfigError(f'volume "{mount.name}" is mounted but not defined')
        if not mount.sub_path:
            return source
        inner = (source / mount.sub_path).resolve()
        if not inner.is_relative_to(source.resolve()):
            raise PodConfigError(f"subPath {mount.sub_path} leaves volume {mount.name}")
        if not inner.exists():
            inner.mkdir(parents=True)
            self._give(inner)
        return inner

    async def _one(self, volume: Volume) -> Path:
        if volume.persistent_volume_claim is not None:
            claim = await self._sources.claim(volume.persistent_volume_claim.claim_name)
            return await anyio.to_thread.run_sync(self._shared, claim_folder(self._root, claim.metadata.uid))
        target = self._folder / volume.name
        if volume.empty_dir is not None:
            return await anyio.to_thread.run_sync(self._shared, target)
        files: dict[str, tuple[bytes, int]] = {}
        if volume.config_map is not None:
            values = await self._sources.config_map(volume.config_map.name, optional=volume.config_map.optional)
            files = _chosen(values, volume.config_map.items, volume.config_map.default_mode)
        elif volume.secret is not None:
            values = await self._sources.secret(volume.secret.secret_name, optional=volume.secret.optional)
            files = _chosen(values, volume.secret.items, volume.secret.default_mode)
        elif volume.projected is not None:
            for source in volume.projected.sources:
                files |= await self._projected(source, volume.projected.default_mode)
        else:
            raise PodConfigError(f'volume "{volume.name}" is of a type that the pod runner does not know')
        await anyio.to_thread.run_sync(self._write, target, files)
        return target

    async def _projected(self, source: ProjectedSource, mode: int | None) -> dict[str, tuple[bytes, int]]:
        if source.service_account_token is not None:
            asked = source.service_account_token
            token = await self._sources.token(self._pod, asked.audience, asked.expiration_seconds)
            return {asked.path: (token, 0o640)}
        if source.config_map is not None:
            values = await self._sources.config_map(source.config_map.name, optional=source.config_map.optional)
            return _chosen(values, source.config_map.items, mode)
        if source.secret is not None:
            values = await self._sources.secret(source.secret.name, optional=source.secret.optional)
            return _chosen(values, source.secret.items, mode)
        if source.downward_api is not None:
            return {
                item.path: (pod_field(self._pod, item.field_ref.field_path).encode(), mode or _FILE_MODE)
                for item in source.downward_api.items
                if item.field_ref is not None
            }
        raise PodConfigError("a projected volume has a source that the pod runner does not know")

    def _shared(self, path: Path) -> Path:
        if not path.exists():
            path.mkdir(parents=True)
            self._give(path)
        return path

    def _give(self, path: Path) -> None:
        """Let the pod's group write, as fsGroup does; for an ordinary user everything is its own already."""
        if self._group is not None and os.geteuid() == 0:
            os.chown(path, -1, self._group)
            path.chmod(0o2775)
        else:
            path.chmod(0o777)

    def _write(self, target: Path, files: Mapping[str, tuple[bytes, int]]) -> None:
        fresh = target.with_name(target.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        for name, (content, mode) in files.items():
            path = fresh / name
            if not path.resolve().is_relative_to(fresh.resolve()):
                raise PodConfigError(f"the path {name} leaves its volume")
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
            if self._group is not None and os.geteuid() == 0:
                os.chown(path, -1, self._group)
            path.chmod(mode)
        fresh.rename(target)


def _chosen(values: Mapping[str, bytes], items: Iterable[KeyToPath], mode: int | None) -> dict[str, tuple[bytes, int]]:
    items = tuple(items)
    if not items:
        return {key: (value, mode or _FILE_MODE) for key, value in values.items()}
    missing = [item.key for item in items if item.key not in values]
    if missing and values:  # an absent optional object has no values at all, and that is fine
        raise PodConfigError(f"references non-existent key: {', '.join(missing)}")
    return {item.path: (values[item.key], item.mode or mode or _FILE_MODE) for item in items if item.key in values}
