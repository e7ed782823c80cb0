"""The command line ``magos``. A command is imported when it runs, so that ``magos --help`` is fast."""

import os
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType, TracebackType
from typing import NoReturn

import click

from magos.cli.failures import exit_code
from magos.cli.session import Session, called_by
from magos.errors import MagosError
from magos.terminal import echo

COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "get": ("magos.cli.get:get", "Show Workspaces, Projects, Rollouts or VariableSets."),
        "tree": ("magos.cli.promotion:tree", "Show a Project and what belongs to it."),
        "explain": ("magos.cli.explaining:explain", "Say what a Workspace waits for."),
        "reconcile": ("magos.cli.asking:reconcile", "Ask for a new run of a Workspace."),
        "approve": ("magos.cli.asking:approve", "Approve exactly one run."),
        "discard": ("magos.cli.asking:discard", "Discard the plan that waits for approval."),
        "logs": ("magos.cli.logs:logs", "Print the log of a run."),
        "rollout": ("magos.cli.promotion:rollout", "Show how far a promotion is."),
        "runs": ("magos.cli.runs:runs", "List the runs of a Workspace, newest first."),
        "login": ("magos.cli.login:login", "Log in at the API server of Magos."),
        "logout": ("magos.cli.login:logout", "Forget the token of the API server of Magos."),
        "whoami": ("magos.cli.login:whoami", "Say who you are for the API server of Magos."),
        "hash-password": ("magos.cli.administration:hash_password", "Print the bcrypt hash of a password."),
        "bootstrap-secrets": (
            "magos.cli.administration:bootstrap_secrets",
            "Create the Secrets of Magos that are missing.",
        ),
        "completion": ("magos.cli.completion:completion", "Print the completion script of a shell."),
        "demo": ("magos.cli.local:demo", "Try Magos on this machine, without a cluster."),
        "assets": ("magos.cli.local:assets", "Obtain the programs that the demo needs."),
        "version": ("magos.cli.main:version", "Print the version of this program."),
    }
)
"""Every command in the order of the help: where it is, and what it does in one line."""


class LazyGroup(click.Group):
    """Knows its commands by the table and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command; None if there is none of that name."""
        del ctx
        where = COMMANDS.get(cmd_name)
        if where is None:
            return None
        module, _, name = where[0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 success, 1 failure, 2 wrong usage, 3 not found, 4 not allowed, 5 timed out.",
)
def cli() -> None:
    """Reconcile Terraform and OpenTofu from Git on Kubernetes."""


@click.command()
def version() -> None:
    """Print the version of this program."""
    from importlib.metadata import version as installed

    echo(f"magos {installed('magos')}")


def main(arguments: list[str] | None = None, session: Session | None = None) -> None:
    """Run the command line; the process ends with a code of ``magos.cli.failures.ExitCode``."""
    sys.excepthook = _unexpected
    here = session or Session(environ=dict(os.environ), program=called_by(sys.argv[0]))
    try:
        cli.main(args=arguments, prog_name=here.program, complete_var="_MAGOS_COMPLETE", obj=here)
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
    sys.exit(exit_code(error))


def _unexpected(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
    """Print a traceback through the door: what it quotes may come from anywhere."""
    echo("".join(traceback.format_exception(kind, error, at)).rstrip(), error=True)


def _first(group: BaseExceptionGroup[MagosError]) -> MagosError:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
