"""``magos hash-password`` and ``bootstrap-secrets``: the secrets of an installation (spec §13.3)."""

import secrets
import string
import sys
from collections.abc import Mapping
from typing import Final

import click

from magos.cli.options import Output, cluster_options, output_option
from magos.cli.session import Cluster, Target, session
from magos.errors import ConfigurationError, MagosError
from magos.terminal import echo, one_line, write_exactly

_COST: Final = 12
_MOST_BYTES: Final = 72
"""Bytes of a password that bcrypt looks at; a longer one would be cut in silence."""
_ALPHABET: Final = string.ascii_letters + string.digits
_LABELS: Final = {"app.kubernetes.io/part-of": "magos"}


@click.command("hash-password")
def hash_password() -> None:
    """Print the bcrypt hash of a password, for ADMIN_ACCOUNT_PASSWORD_HASH.

    The password is read from the terminal, or as one line from standard input; it is never an argument.
    """
    if sys.stdin.isatty():
        password = str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    else:
        password = sys.stdin.readline().removesuffix("\n")
    echo(hashed(password))


def hashed(password: str) -> str:
    """Return the bcrypt hash; raises ``ConfigurationError`` for a password that bcrypt cannot keep whole."""
    try:
        import bcrypt
    except ModuleNotFoundError as error:
        raise MagosError(
            "this installation cannot hash passwords: it has no module bcrypt; install Magos with pip install"
            " 'magos[server]'"
        ) from error

    raw = password.encode()
    if not raw:
        raise ConfigurationError("the password is empty: type it, or give it as one line on standard input")
    if len(raw) > _MOST_BYTES or b"\0" in raw:
        raise ConfigurationError(f"a password has at most {_MOST_BYTES} bytes and no NUL; this has {len(raw)} bytes")
    return bcrypt.hashpw(raw, bcrypt.gensalt(_COST)).decode()


@click.command("bootstrap-secrets")
@click.option("--print", "only_print", is_flag=True, help="Print the manifests and create nothing.")
@output_option(Output.YAML, Output.JSON)
@cluster_options
def bootstrap_secrets(*, only_print: bool, output: str, target: Target) -> None:
    """Create the Secrets of Magos that are missing, with random values.

    They are magos-api, magos-postgres and magos-rustfs. One that exists is left as it is. The values that are created
    are not printed: kubectl reads them from the Secrets.
    """
    from magos.cli.printing import as_json, as_yaml

    here = session()
    if only_print:
        manifests = [manifest(target.namespace, name, values) for name, values in fresh_secrets().items()]
        write_exactly(
            "---\n".join(map(as_yaml, manifests))
            if Output(output) is Output.YAML
            else as_json({"apiVersion": "v1", "kind": "List", "items": manifests})
        )
        return
    here.on_cluster(target, _create)


async def _create(cluster: Cluster) -> None:
    from magos.api.kube import SECRETS
    from magos.runtime.client.errors import ApiError

    for name, values in fresh_secrets().items():
        what = one_line(f"Secret {cluster.namespace}/{name}")
        try:
            await cluster.client.create(SECRETS, manifest(cluster.namespace, name, values))
        except ApiError as error:
            if not error.already_exists:
                raise
            echo(f"{what} exists and is left as it is.")
        else:
            echo(f"{what} is created.")


def fresh_secrets() -> Mapping[str, Mapping[str, str]]:
    """Return new random values of every Secret, by its name."""
    password = _random(32)
    return {
        "magos-api": {
            "adminPassword": password,
            "adminPasswordHash": hashed(password),
            "tokenSigningKey": _random(64),
            "sessionSigningKey": _random(64),
        },
        "magos-postgres": {"password": _random(40)},
        "magos-rustfs": {"accessKey": _random(20), "secretKey": _random(40)},
    }


def manifest(namespace: str, name: str, values: Mapping[str, str]) -> dict[str, object]:
    """Return the manifest of a Secret; without a namespace it takes that of whoever applies it."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": _LABELS}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "stringData": dict(values)}


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
