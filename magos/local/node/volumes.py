"""The volumes of a pod as folders of this machine.

A claim is a folder named by the claim's UID: it outlives pods, and a recreated claim of the same name gets a new one.
An ``emptyDir`` ends with the pod. Files of Secrets, ConfigMaps and tokens are written once, before the first container.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import anyio

from magos.api import kube
from magos.local.node.sources import PodConfigError, PodSources, pod_field
from magos.privatefile import write_private

_FILE_MODE = 0o644
_TOKEN_MODE = 0o640
"""The kubelet's modes of projected files and of a projected token in a pod with an fsGroup."""


_Files: TypeAlias = dict[str, tuple[bytes, int]]
"""Content and mode by path in the volume."""


def claim_folder(root: Path, uid: str) -> Path:
    """Return the folder that holds the content of a claim."""
    return root / "claims" / uid


def remove_claim(root: Path, uid: str) -> None:
    """Remove the content of a claim that no longer exists."""
    shutil.rmtree(claim_folder(root, uid), ignore_errors=True)


class PodVolumes:
    """Prepares the volumes of one pod below ``folder``; claims lie below ``root``."""

    def __init__(self, pod: kube.PodManifest, root: Path, folder: Path, sources: PodSources) -> None:
        self._pod = pod
        self._root = root
        self._folder = folder / "volumes"
        self._sources = sources
        self._paths: dict[str, Path] = {}
        context = pod.spec.security_context
        self._group = context.fs_group if context is not None else None

    async def prepare(self) -> None:
        """Make every volume ready; call it again after a ``PodConfigError``."""
        for volume in self._pod.spec.volumes:
            if volume.name not in self._paths:
                self._paths[volume.name] = await self._one(volume)

    def mount_source(self, mount: kube.VolumeMount) -> Path:
        """Return the folder to mount; a ``subPath`` that does not exist is created."""
        source = self._paths.get(mount.name)
        if source is None:
            raise PodConfigError(f'the pod mounts volume "{mount.name}" but does not define it')
        if not mount.sub_path:
            return source
        inner = (source / mount.sub_path).resolve()
        if not inner.is_relative_to(source.resolve()):
            raise PodConfigError(f"subPath {mount.sub_path} points outside volume {mount.name}")
        return self._shared(inner)

    async def _one(self, volume: kube.Volume) -> Path:
        if volume.persistent_volume_claim is not None:
            claim = await self._sources.claim(volume.persistent_volume_claim.claim_name)
            return await anyio.to_thread.run_sync(self._shared, claim_folder(self._root, claim.metadata.uid))
        target = self._folder / volume.name
        if volume.empty_dir is not None:
            return await anyio.to_thread.run_sync(self._shared, target)
        files: _Files = {}
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
            raise PodConfigError(f'the pod runner does not support the type of volume "{volume.name}"')
        await anyio.to_thread.run_sync(self._write, target, files)
        return target

    async def _projected(self, source: kube.ProjectedSource, mode: int | None) -> _Files:
        if source.service_account_token is not None:
            asked = source.service_account_token
            token = await self._sources.token(self._pod, asked.audience, asked.expiration_seconds)
            return {asked.path: (token, _TOKEN_MODE)}
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
        raise PodConfigError("the pod runner does not support a source of a projected volume")

    def _shared(self, path: Path) -> Path:
        if not path.exists():
            path.mkdir(parents=True)
            self._give(path)
        return path

    def _give(self, path: Path) -> None:
        """Let the pod's group write, as fsGroup does; an ordinary user cannot change groups, so everyone may write."""
        path.chmod(0o2775 if self._change_group(path) else 0o777)

    def _change_group(self, path: Path) -> bool:
        if self._group is None or os.geteuid() != 0:
            return False
        os.chown(path, -1, self._group)
        return True

    def _write(self, target: Path, files: _Files) -> None:
        fresh = target.with_name(target.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        for name, (content, mode) in files.items():
            path = fresh / name
            if not path.resolve().is_relative_to(fresh.resolve()):
                raise PodConfigError(f"the path {name} points outside its volume")
            write_private(path, content)
            self._change_group(path)
            path.chmod(mode)
        fresh.rename(target)


def _chosen(values: Mapping[str, bytes], items: tuple[kube.KeyToPath, ...], mode: int | None) -> _Files:
    if not items:
        return {key: (value, mode or _FILE_MODE) for key, value in values.items()}
    missing = [item.key for item in items if item.key not in values]
    if missing and values:  # an absent optional object has no values at all, and that is fine
        raise PodConfigError(f"references non-existent key: {', '.join(missing)}")
    return {item.path: (values[item.key], item.mode or mode or _FILE_MODE) for item in items if item.key in values}
