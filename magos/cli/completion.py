"""``magos completion``: the script that lets a shell complete commands, flags and names of objects."""

from collections.abc import Mapping
from typing import Any

import click

from magos.cli.session import Cluster, Session, Target
from magos.errors import InvariantViolation
from magos.terminal import write_exactly

_SECONDS = 1.5
"""A completion that takes longer is worse than none."""


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    In bash: source <(magos completion bash).
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    root = context.find_root().command
    if found is None:  # the choices above are those that click knows
        raise InvariantViolation(f"click knows no shell {shell}")
    write_exactly(found(root, {}, "magos", "_MAGOS_COMPLETE").source())


def names_in_cluster(here: Session, given: Mapping[str, Any], plural: str) -> list[str]:
    """Return the names of the objects of a kind in the namespace that was typed; nothing if anything is in the way."""
    try:
        return here.on_cluster(_target(given), lambda cluster: _names(cluster, plural))
    except Exception:  # noqa: BLE001 - a shell that waits for a word shows no error
        return []


def _target(given: Mapping[str, Any]) -> Target:
    def text(name: str) -> str:
        value = given.get(name)
        return value if isinstance(value, str) else ""

    return Target(kubeconfig=text("kubeconfig"), context=text("context"), namespace=text("namespace"))


async def _names(cluster: Cluster, plural: str) -> list[str]:
    import anyio

    from magos.cli.kinds import columns_of

    with anyio.fail_after(_SECONDS):
        page = await cluster.client.list(columns_of(plural).kind, cluster.namespace, limit=500)
    return [each.metadata.name for each in page.items]
