"""The command line ``magos``. Commands import what they need when they run, so that ``magos --help`` is instant."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from magos.errors import ConfigurationError, MagosError

if TYPE_CHECKING:
    from magos.local.programs.assets import AssetSettings

__all__ = ["main"]

_FAILURE, _USAGE, _NOT_FOUND = 1, 2, 3


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(base) / "magos"


def _asset_settings() -> "AssetSettings":
    from magos.local.programs.assets import AssetSettings

    given = os.environ.get("KUBEBUILDER_ASSETS", "")
    return AssetSettings(cache=_cache(), environ=dict(os.environ), kubebuilder_assets=Path(given) if given else None)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def cli() -> None:
    """Reconcile Terraform and OpenTofu from Git on Kubernetes."""


@cli.command()
def version() -> None:
    """Print the version of this program."""
    from importlib.metadata import version as installed

    click.echo(f"magos {installed('magos')}")


@cli.command()
def assets() -> None:
    """Obtain what the one-machine mode needs: a control plane and OpenTofu (cached)."""
    from magos.local.programs.assets import machine_assets
    from magos.local.programs.progress import LineProgress

    programs = machine_assets(_asset_settings(), LineProgress(sys.stderr))
    plane = programs.control_plane
    for program in (plane.etcd, plane.kube_apiserver, plane.kube_controller_manager, programs.tofu):
        click.echo(str(program))


@cli.command()
@click.option("--exit", "leave", is_flag=True, help="End after the walk: status 0 if everything was applied, else 1.")
def demo(leave: bool) -> None:
    """Run Magos on this machine and apply three Workspaces; stays up until Ctrl-C.

    Needs no cluster and no container engine. Pods run as local processes and are not isolated.
    """
    from magos.cli.demo import DemoSettings, run_demo

    settings = DemoSettings(
        assets=_asset_settings(),
        environ={name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
        stay=not leave,
    )
    sys.exit(run_demo(settings))


@cli.command()
@click.argument("project")
@click.option("-n", "--namespace", default="", help="Namespace of the Project (default: the context's).")
@click.option("--context", default="", help="Context of the kubeconfig.")
def tree(project: str, namespace: str, context: str) -> None:
    """Show a Project and its Workspaces with phase and reason."""
    import anyio

    from magos.cli.queries import load_tree

    text = anyio.run(load_tree, dict(os.environ), context, namespace, project)
    if text is None:
        raise NotFound(f"there is no Project {project} in that namespace, and no Workspace names it; see -n")
    click.echo(text)


class NotFound(MagosError):
    """What was asked for does not exist."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the process ends with 0, 1 failure, 2 usage or 3 not found."""
    try:
        cli.main(args=arguments, prog_name="magos")
    except MagosError as error:
        _end(error)
    except BaseExceptionGroup as group:
        # Task groups wrap what their tasks raise; errors made for people are shown as such.
        expected, unexpected = group.split(MagosError)
        if expected is None or unexpected is not None:
            raise
        _end(_first(expected))


def _end(error: MagosError) -> NoReturn:
    click.echo(f"magos: {error}", err=True)
    if isinstance(error, ConfigurationError):
        sys.exit(_USAGE)
    sys.exit(_NOT_FOUND if isinstance(error, NotFound) else _FAILURE)


def _first(group: BaseExceptionGroup[MagosError]) -> MagosError:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
