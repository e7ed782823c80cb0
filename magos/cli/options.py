"""Flags and arguments that several commands share."""

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from functools import wraps
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from magos.cli.session import Session, Target
from magos.durations import parse_duration
from magos.errors import ConfigurationError

F = TypeVar("F", bound=Callable[..., Any])


class Output(StrEnum):
    """How objects are printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class Duration(click.ParamType[timedelta]):
    """A duration such as 90s or 10m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration, or end the command with wrong usage."""
        if isinstance(value, timedelta):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Name(click.ParamType[str]):
    """The name of an object of this kind, as ``NAME`` or ``NAMESPACE/NAME``; a shell may complete it."""

    name = "name"

    def __init__(self, plural: str) -> None:
        self._plural = plural

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names in the cluster that begin with what was typed; none if that takes long."""
        del param
        from magos.cli.completion import names_in_cluster

        found = names_in_cluster(ctx.find_object(Session) or Session(), ctx.params, self._plural)
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags that say which cluster and namespace a command works with; it gets them as ``target``."""

    @wraps(command)
    def aimed(*, kubeconfig: str, context: str, namespace: str, **others: Any) -> None:
        command(target=Target(kubeconfig=kubeconfig, context=context, namespace=namespace), **others)

    decorated: Callable[..., None] = aimed
    for option in (
        click.option("--kubeconfig", default="", metavar="PATH", help="Kubeconfig (default: $KUBECONFIG)."),
        click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig."),
        click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace (default: the context's)."),
    ):
        decorated = option(decorated)
    return decorated


def workspace_argument(command: F) -> F:
    """Add the argument that names a Workspace."""
    return click.argument("workspace", type=Name("workspaces"), metavar="[NAMESPACE/]WORKSPACE")(command)


def timeout_option(command: F) -> F:
    """Add the flag that bounds a wait."""
    return click.option(
        "--timeout", type=Duration(), metavar="DURATION", help="Give up after this time (default: never)."
    )(command)


def output_option(*choices: Output) -> Callable[[F], F]:
    """Add the flag that says how to print; the first choice is the default."""
    return click.option(
        "-o", "--output", type=click.Choice([str(each) for each in choices]), default=str(choices[0]), show_default=True
    )


def named(target: Target, text: str) -> tuple[Target, str]:
    """Return target and name for ``NAME`` or ``NAMESPACE/NAME``; raises ``ConfigurationError`` if they disagree."""
    namespace, slash, name = text.rpartition("/")
    if not name or (slash and not namespace) or "/" in namespace:
        raise ConfigurationError(f"{text!r} does not name an object: write NAME or NAMESPACE/NAME")
    if not slash:
        return target, name
    if target.namespace not in ("", namespace):
        raise ConfigurationError(f"{text!r} names another namespace than --namespace {target.namespace}: give one")
    return Target(kubeconfig=target.kubeconfig, context=target.context, namespace=namespace), name
