"""The command line ``magos``. Commands import what they need when they run, so that ``magos --help`` is fast."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

import click

from magos.errors import ConfigurationError, MagosError
from magos.terminal import echo

if TYPE_CHECKING:
    from magos.local.programs.assets import AssetSettings

_FAILURE, _USAGE, _NOT_FOUND = 1, 2, 3


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(base) / "magos"


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

    echo(f"magos {installed('magos')}")


@cli.command()
def assets() -> None:
    """Obtain the programs that the demo needs and print their paths.

    They are etcd, kube-apiserver, kube-controller-manager and OpenTofu. Each comes from the folder of
    KUBEBUILDER_ASSETS, the cache (~/.cache/magos), a download or a build, which takes some minutes.
    """
    with _needs_one_machine_mode():
        from magos.local.programs.assets import machine_assets
        from magos.local.programs.progress import LineProgress

    programs = machine_assets(_asset_settings(), LineProgress(sys.stderr))
    plane = programs.control_plane
    for program in (plane.etcd, plane.kube_apiserver, plane.kube_controller_manager, programs.tofu):
        echo(str(program))


@cli.command()
@click.option("--exit", "leave", is_flag=True, help="End after the last chapter; status 0 if all went well, else 1.")
def demo(leave: bool) -> None:
    """Try Magos on this machine, without a cluster.

    A commit is promoted from dev to prod, a broken one stops in staging, its correction reaches prod. Then everything
    keeps running until Ctrl-C, so that you can look around. No container engine is needed: pods run as local processes
    and are not isolated.
    """
    with _needs_one_machine_mode():
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

    from magos.cli.tree import load_tree

    text = anyio.run(load_tree, dict(os.environ), context, namespace, project)
    if text is None:
        where = f"namespace {namespace}" if namespace else "the namespace of the kubeconfig's context"
        raise NotFound(f"{where} has no Project {project} and no Workspace of it; name another namespace with -n")
    echo(text)


class NotFound(MagosError):
    """The object that the user asked for does not exist."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the process ends with 0 (success), 1 (failure), 2 (wrong usage) or 3 (not found)."""
    sys.excepthook = _unexpected
    try:
        cli.main(args=arguments, prog_name="magos")
    except MagosError as error:
        _end(error)
    except BaseExceptionGroup as group:
        # A task group wraps the errors of its tasks; one that is made for people is shown without a traceback.
        expected, unexpected = group.split(MagosError)
        if expected is None or unexpected is not None:
            raise
        _end(_first(expected))


def _end(error: MagosError) -> NoReturn:
    echo(f"magos: {error}", error=True)
    if isinstance(error, ConfigurationError):
        sys.exit(_USAGE)
    sys.exit(_NOT_FOUND if isinstance(error, NotFound) else _FAILURE)


def _unexpected(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """Print a traceback through the door: what it quotes may come from anywhere."""
    echo("".join(traceback.format_exception(kind, error, at)).rstrip(), error=True)


def _first(group: BaseExceptionGroup[MagosError]) -> MagosError:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
