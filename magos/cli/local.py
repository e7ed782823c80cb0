"""``magos demo`` and ``magos assets``: the one-machine mode, which the images do not have."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from magos.cli.session import Session, session
from magos.errors import MagosError
from magos.terminal import echo

if TYPE_CHECKING:
    from magos.local.programs.assets import AssetSettings


@contextmanager
def _needs_one_machine_mode() -> Iterator[None]:
    """Say how to install the one-machine mode if the imports in the block fail, as they do in the images."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MagosError(
            f"this installation cannot run the one-machine mode: it has no module {error.name}; "
            "install Magos with pip install 'magos[local]', or use a checkout and scripts/demo"
        ) from error


def cache_folder(here: Session) -> Path:
    """Return the folder of programs that are kept, by the convention of XDG."""
    base = here.environ.get("XDG_CACHE_HOME") or f"{here.environ.get('HOME') or Path.home()}/.cache"
    return Path(base) / "magos"


def _asset_settings(here: Session) -> "AssetSettings":
    from magos.local.programs.assets import AssetSettings

    given = here.environ.get("KUBEBUILDER_ASSETS", "")
    return AssetSettings(
        cache=cache_folder(here), environ=dict(here.environ), kubebuilder_assets=Path(given) if given else None
    )


@click.command()
def assets() -> None:
    """Obtain the programs that the demo needs and print their paths.

    They are etcd, kube-apiserver, kube-controller-manager and OpenTofu. Each comes from the folder of
    KUBEBUILDER_ASSETS, the cache (~/.cache/magos), a download or a build, which takes some minutes.
    """
    with _needs_one_machine_mode():
        from magos.local.programs.assets import machine_assets
        from magos.local.programs.progress import LineProgress

    programs = machine_assets(_asset_settings(session()), LineProgress(sys.stderr))
    plane = programs.control_plane
    for program in (plane.etcd, plane.kube_apiserver, plane.kube_controller_manager, programs.tofu):
        echo(str(program))


@click.command()
@click.option("--exit", "leave", is_flag=True, help="End after the last chapter; status 0 if all went well, else 1.")
def demo(leave: bool) -> None:
    """Try Magos on this machine, without a cluster.

    A commit is promoted from dev to prod, a broken one stops in staging, its correction reaches prod. Then everything
    keeps running until Ctrl-C, so that you can look around. No container engine is needed: pods run as local processes
    and are not isolated.
    """
    with _needs_one_machine_mode():
        from magos.cli.demo import DemoSettings, run_demo

    here = session()
    settings = DemoSettings(
        assets=_asset_settings(here),
        environ={name: here.environ[name] for name in ("PATH", "HOME", "LANG") if name in here.environ},
        stay=not leave,
    )
    sys.exit(run_demo(settings))
