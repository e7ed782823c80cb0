"""The volumes of a pod: files with their modes, and no way out of a volume."""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
import pytest

from magos.api.kube import PodManifest, VolumeMount
from magos.local.node.sources import PodConfigError, PodSources
from magos.local.node.volumes import PodVolumes, claim_folder, remove_claim

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class _Sources:
    """A namespace with one Secret and one ConfigMap, each with the keys ``a`` and ``b``."""

    async def secret(self, name: str, *, optional: bool) -> Mapping[str, bytes]:
        return {} if name == "absent" and optional else {"a": b"secret a", "b": b"secret b"}

    async def config_map(self, name: str, *, optional: bool) -> Mapping[str, bytes]:
        del name, optional
        return {"a": b"public a", "b": b"public b"}

    async def token(self, pod: PodManifest, audience: str, seconds: int | None) -> bytes:
        del pod, seconds
        return f"token for {audience}".encode()


def _volumes(root: Path, *volumes: Mapping[str, Any]) -> PodVolumes:
    pod = {"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [], "volumes": list(volumes)}}
    manifest = msgspec.convert(pod, PodManifest)
    return PodVolumes(manifest, root, root / "pod", cast("PodSources", _Sources()))


async def test_files_have_the_chosen_paths_contents_and_modes(tmp_path: Path) -> None:
    volumes = _volumes(
        tmp_path,
        {"name": "all", "configMap": {"name": "c"}},
        {"name": "one", "secret": {"secretName": "s", "defaultMode": 0o400, "items": [{"key": "b", "path": "x/b"}]}},
        {
            "name": "mixed",
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"path": "token", "audience": "cloud"}},
                    {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                ]
            },
        },
    )
    await volumes.prepare()
    found = {
        f"{name}/{path.relative_to(source)}": (path.read_text(), stat.S_IMODE(path.stat().st_mode))
        for name in ("all", "one", "mixed")
        for source in [volumes.mount_source(VolumeMount(name=name, mount_path="/m"))]
        for path in source.rglob("*")
        if path.is_file()
    }
    assert found == {
        "all/a": ("public a", 0o644),
        "all/b": ("public b", 0o644),
        "one/x/b": ("secret b", 0o400),
        "mixed/token": ("token for cloud", 0o640),
        "mixed/name": ("p", 0o644),
    }


@pytest.mark.parametrize("path", ["../outside", "x/../../outside"])
def test_a_file_outside_its_volume_is_refused(path: str, tmp_path: Path) -> None:
    items = [{"key": "a", "path": path}]
    volumes = _volumes(tmp_path, {"name": "v", "secret": {"secretName": "s", "items": items}})
    with pytest.raises(PodConfigError, match="points outside its volume"):
        anyio.run(volumes.prepare)
    assert not list(tmp_path.rglob("outside"))


async def test_a_sub_path_outside_its_volume_is_refused_and_another_is_created(tmp_path: Path) -> None:
    volumes = _volumes(tmp_path, {"name": "v", "emptyDir": {}})
    await volumes.prepare()
    with pytest.raises(PodConfigError, match=r"subPath \.\./\.\. points outside volume v"):
        volumes.mount_source(VolumeMount(name="v", mount_path="/m", sub_path="../.."))
    inner = volumes.mount_source(VolumeMount(name="v", mount_path="/m", sub_path="a/b"))
    assert inner.is_dir()
    with pytest.raises(PodConfigError, match='mounts volume "w" but does not define it'):
        volumes.mount_source(VolumeMount(name="w", mount_path="/m"))


async def test_a_missing_key_is_named_and_an_absent_optional_object_is_an_empty_volume(tmp_path: Path) -> None:
    items = [{"key": "z", "path": "z"}]
    volumes = _volumes(tmp_path, {"name": "v", "secret": {"secretName": "s", "items": items}})
    with pytest.raises(PodConfigError, match="references non-existent key: z"):
        await volumes.prepare()
    volumes = _volumes(tmp_path, {"name": "v", "secret": {"secretName": "absent", "optional": True, "items": items}})
    await volumes.prepare()
    assert list(volumes.mount_source(VolumeMount(name="v", mount_path="/m")).iterdir()) == []


def test_a_removed_claim_leaves_other_claims_alone(tmp_path: Path) -> None:
    for uid in ("one", "two"):
        claim_folder(tmp_path, uid).mkdir(parents=True)
    remove_claim(tmp_path, "one")
    remove_claim(tmp_path, "never-existed")
    assert [folder.name for folder in (tmp_path / "claims").iterdir()] == ["two"]
