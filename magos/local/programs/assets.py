"""Where the programs of the one-machine mode come from.

Each program is taken from the first of: the folder of ``KUBEBUILDER_ASSETS``, the cache, the official download, a
build from Go modules. The two halves of Kubernetes are kept at one version: with a foreign kube-apiserver, a
kube-controller-manager of that very version is obtained, since a controller manager newer than its API server is
outside Kubernetes' version skew policy.

Everything here blocks for up to minutes: run it before the event loop starts, or in a thread.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from magos.errors import MagosError
from magos.local.programs.cache import locked, place_program, program_path
from magos.local.programs.download import Downloader, DownloadFailed, Sources
from magos.local.programs.gobuild import build
from magos.local.programs.golang import find_go
from magos.local.programs.progress import Progress
from magos.local.programs.recipes import ETCD, KYVERNO, TIME_PROVIDER, TOFU, Recipe, kubernetes

__all__ = [
    "AssetSettings",
    "ControlPlaneAssets",
    "control_plane_assets",
    "kyverno_program",
    "time_provider_program",
    "tofu_program",
]

_APISERVER: Final = "kube-apiserver"
_CONTROLLER_MANAGER: Final = "kube-controller-manager"


class AssetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look and where to keep things; read from the environment by the caller.

    ``cache`` is by convention ``${XDG_CACHE_HOME:-~/.cache}/magos``. ``environ`` is what pip and Go run with (PATH,
    HOME, proxies). ``sources`` None forbids downloads.
    """

    cache: Path
    environ: Mapping[str, str]
    kubebuilder_assets: Path | None = None
    sources: Sources | None = Sources()


class ControlPlaneAssets(msgspec.Struct, frozen=True, kw_only=True):
    """The three programs of a control plane, each an executable file."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path


def control_plane_assets(
    settings: AssetSettings, progress: Progress, *, ahead: Sequence[Recipe] = ()
) -> ControlPlaneAssets:
    """All three programs, obtained if need be; a MagosError says what could not be had and what to do.

    ``ahead`` is what the caller will want next.
    """
    downloader = None if settings.sources is None else Downloader(settings.sources)
    etcd = _given(settings, ETCD.name)
    behind_kubernetes = ahead if etcd is not None else (ETCD, *ahead)
    given = _given(settings, _APISERVER)
    apiserver = given or _obtain(kubernetes(_APISERVER), settings, downloader, progress, behind_kubernetes)
    manager = _given(settings, _CONTROLLER_MANAGER)
    if manager is None:
        recipe = kubernetes(_CONTROLLER_MANAGER)
        if given is not None:
            recipe = kubernetes(_CONTROLLER_MANAGER, _reported_version(given))
        manager = _obtain(recipe, settings, downloader, progress, behind_kubernetes)
    etcd = etcd or _obtain(ETCD, settings, downloader, progress, ahead)
    return ControlPlaneAssets(etcd=etcd, kube_apiserver=apiserver, kube_controller_manager=manager)


def tofu_program(settings: AssetSettings, progress: Progress, *, ahead: Sequence[Recipe] = ()) -> Path:
    """An OpenTofu of :data:`magos.local.programs.recipes.TOFU_VERSION` that reports itself as that release.

    ``ahead`` is what the caller will want next.
    """
    downloader = None if settings.sources is None else Downloader(settings.sources)
    return _obtain(TOFU, settings, downloader, progress, ahead)


def kyverno_program(settings: AssetSettings, progress: Progress) -> Path:
    """The Kyverno command line of :data:`magos.local.programs.recipes.KYVERNO_VERSION`; the longest build of all."""
    downloader = None if settings.sources is None else Downloader(settings.sources)
    return _given(settings, KYVERNO.name) or _obtain(KYVERNO, settings, downloader, progress)


def time_provider_program(settings: AssetSettings, progress: Progress) -> Path:
    """The ``time`` provider, for a folder that plays a provider registry (``filesystem_mirror``)."""
    return _obtain(TIME_PROVIDER, settings, None, progress)


def _given(settings: AssetSettings, name: str) -> Path | None:
    if settings.kubebuilder_assets is None:
        return None
    program = settings.kubebuilder_assets / name
    return program if os.access(program, os.X_OK) and program.is_file() else None


def _reported_version(apiserver: Path) -> str:
    answer = subprocess.run([apiserver, "--version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"\bv(\d+\.\d+\.\d+)", answer.stdout)
    if found is None:
        raise MagosError(
            f"{apiserver} does not report a release version ({(answer.stdout + answer.stderr).strip()[:200]}); "
            f"put a matching {_CONTROLLER_MANAGER} beside it, or unset KUBEBUILDER_ASSETS"
        )
    return found[1]


def _obtain(
    recipe: Recipe,
    settings: AssetSettings,
    downloader: Downloader | None,
    progress: Progress,
    ahead: Sequence[Recipe] = (),
) -> Path:
    program = program_path(settings.cache, recipe.key, recipe.name)
    if program.is_file():
        return program
    with locked(settings.cache, recipe.key, progress):
        if program.is_file():  # made by another process while this one waited
            return program
        if downloader is not None and _downloaded(recipe, settings.cache, downloader, progress):
            return program
        with locked(settings.cache, "go", progress):
            go = find_go(settings.cache, settings.environ, progress)
        missing = [each for each in ahead if not program_path(settings.cache, each.key, each.name).is_file()]
        build(recipe, go, settings.cache, progress, missing)
        return program


def _downloaded(recipe: Recipe, cache: Path, downloader: Downloader, progress: Progress) -> bool:
    progress.say(f"downloading {recipe.title}")
    try:
        with place_program(cache, recipe.key, recipe.name) as target:
            downloader.fetch(recipe, target)
    except DownloadFailed as error:
        progress.say(f"{recipe.title}: no download: {error}")
        return False
    return True
