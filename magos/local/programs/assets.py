"""Where the programs of the one-machine mode come from.

The first of these that has a program provides it: the folder of ``KUBEBUILDER_ASSETS``, the cache, the official
download, a build from Go modules. The kube-controller-manager always has the version of the kube-apiserver, also of one
from ``KUBEBUILDER_ASSETS``: Kubernetes' version skew policy allows none that is newer than its API server.

Every call may block for minutes: call it before the event loop starts, or in a thread.
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
from magos.local.programs.golang import VERSION_SECONDS, find_go
from magos.local.programs.progress import Progress
from magos.local.programs.recipes import ETCD, KYVERNO, TOFU, Recipe, kubernetes

_APISERVER: Final = "kube-apiserver"
_CONTROLLER_MANAGER: Final = "kube-controller-manager"


class AssetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where programs come from and where they are kept; the caller reads it from the environment.

    ``cache`` is by convention ``${XDG_CACHE_HOME:-~/.cache}/magos``. pip and Go run with ``environ`` (PATH, HOME,
    proxies). ``sources`` None forbids downloads.
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


class MachineAssets(msgspec.Struct, frozen=True, kw_only=True):
    """The programs that must be there before anything can start; ``kyverno`` only if there are policies."""

    control_plane: ControlPlaneAssets
    tofu: Path
    kyverno: Path | None = None


def machine_assets(settings: AssetSettings, progress: Progress, *, policies: bool = False) -> MachineAssets:
    """Obtain the programs; blocks, for minutes if a program must be built.

    Without ``policies`` the Kyverno command line, whose build takes longest, is left out: a plan fails if policies are
    selected for it.
    """
    last = (KYVERNO,) if policies else ()
    return MachineAssets(
        control_plane=control_plane_assets(settings, progress, ahead=(TOFU, *last)),
        tofu=tofu_program(settings, progress, ahead=last),
        kyverno=kyverno_program(settings, progress) if policies else None,
    )


def control_plane_assets(
    settings: AssetSettings, progress: Progress, *, ahead: Sequence[Recipe] = ()
) -> ControlPlaneAssets:
    """Return all three programs, obtaining those that are not there yet.

    ``ahead`` are the programs that the caller obtains next: their modules are downloaded during a build. Raises
    ``MagosError``, which names the program that cannot be obtained, the cause and the next step.
    """
    downloader = _downloader(settings)
    etcd = _given(settings, ETCD.name)
    after_kubernetes = ahead if etcd is not None else (ETCD, *ahead)
    given = _given(settings, _APISERVER)
    apiserver = given or _obtain(kubernetes(_APISERVER), settings, downloader, progress, after_kubernetes)
    manager = _given(settings, _CONTROLLER_MANAGER)
    if manager is None:
        recipe = kubernetes(_CONTROLLER_MANAGER)
        if given is not None:
            recipe = kubernetes(_CONTROLLER_MANAGER, _reported_version(given))
        manager = _obtain(recipe, settings, downloader, progress, after_kubernetes)
    etcd = etcd or _obtain(ETCD, settings, downloader, progress, ahead)
    return ControlPlaneAssets(etcd=etcd, kube_apiserver=apiserver, kube_controller_manager=manager)


def tofu_program(settings: AssetSettings, progress: Progress, *, ahead: Sequence[Recipe] = ()) -> Path:
    """Return OpenTofu of version ``recipes.TOFU_VERSION``, which it also reports; ``ahead`` as above."""
    return obtain(TOFU, settings, progress, ahead=ahead)


def kyverno_program(settings: AssetSettings, progress: Progress) -> Path:
    """Return the Kyverno command line of version ``recipes.KYVERNO_VERSION``; its build takes longest of all."""
    return _given(settings, KYVERNO.name) or obtain(KYVERNO, settings, progress)


def obtain(recipe: Recipe, settings: AssetSettings, progress: Progress, *, ahead: Sequence[Recipe] = ()) -> Path:
    """Return the program of ``recipe`` from the cache, a download or a build; ``ahead`` as above.

    Only the programs of :mod:`.recipes` have a download: for another recipe, forbid downloads in ``settings``.
    """
    return _obtain(recipe, settings, _downloader(settings), progress, ahead)


def _downloader(settings: AssetSettings) -> Downloader | None:
    return None if settings.sources is None else Downloader(settings.sources)


def _given(settings: AssetSettings, name: str) -> Path | None:
    if settings.kubebuilder_assets is None:
        return None
    program = settings.kubebuilder_assets / name
    return program if os.access(program, os.X_OK) and program.is_file() else None


def _reported_version(apiserver: Path) -> str:
    command = [str(apiserver), "--version"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=VERSION_SECONDS, check=False)
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
        progress.say(f"cannot download {recipe.title}, building it instead: {error}")
        return False
    return True
