"""The flags that name the API server of Magos, and the token that goes there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from magos.cli.session import Session
from magos.errors import ConfigurationError

if TYPE_CHECKING:
    from magos.cli.api import Api

SERVER, TOKEN, CA_FILE = "MAGOS_SERVER", "MAGOS_TOKEN", "MAGOS_CA_FILE"


@dataclass(frozen=True, kw_only=True)
class ServerFlags:
    """What the flags say; empty values are those of the environment."""

    server: str = ""
    token: str = ""
    ca_file: str = ""

    def address(self, here: Session) -> str:
        """Return the base URL without a slash at its end, empty if none is configured."""
        return (self.server or here.environ.get(SERVER, "")).rstrip("/")

    def needed(self, here: Session, what: str) -> str:
        """Return the base URL; raises ``ConfigurationError`` that says how to give it."""
        found = self.address(here)
        if not found:
            raise ConfigurationError(f"{what} needs the API server of Magos: give its URL with --server or {SERVER}")
        return found

    @contextmanager
    def open(self, here: Session, what: str = "this", *, anonymous: bool = False) -> Iterator["Api"]:
        """Open the API with the token of the flag, of the environment, or of the last login there."""
        from magos.cli.api import Api
        from magos.cli.tokens import stored_token

        address = self.needed(here, what)
        token = "" if anonymous else self.token or here.environ.get(TOKEN, "") or stored_token(here.environ, address)
        with Api(address, token, ca_file=self.authorities(here), login=f"{here.program} login") as api:
            yield api

    def authorities(self, here: Session) -> str:
        """Return the file of authorities, empty for the system's."""
        return self.ca_file or here.environ.get(CA_FILE, "")


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags of the API server; the command gets them as ``server``."""

    @wraps(command)
    def aimed(*, server: str, token: str, ca_file: str, **others: Any) -> None:
        command(server=ServerFlags(server=server, token=token, ca_file=ca_file), **others)

    decorated: Callable[..., None] = aimed
    for option in (
        click.option("--ca-file", default="", metavar="PATH", help=f"Authorities of its certificate (${CA_FILE})."),
        click.option("--token", default="", metavar="TOKEN", help=f"Token (${TOKEN}, or that of the login)."),
        click.option("--server", default="", metavar="URL", help=f"API server of Magos (${SERVER})."),
    ):
        decorated = option(decorated)
    return decorated
