"""``magos login``, ``logout`` and ``whoami``: who you are for the API server of Magos."""

import base64
import hashlib
import secrets
import sys
import webbrowser
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import click
import msgspec
from msgspec import Struct

from magos.cli.failures import NotAllowed
from magos.cli.options import Output, output_option
from magos.cli.serverflags import ServerFlags, server_options
from magos.cli.session import Session, session
from magos.errors import ConfigurationError, MagosError
from magos.terminal import echo, one_line

if TYPE_CHECKING:
    from magos.cli.api import Token

_BROWSER_SECONDS = 300.0
_STANDARD_SCOPES = ("openid", "profile", "email")


class _Discovery(Struct, frozen=True, kw_only=True):
    """The document at ``<issuer>/.well-known/openid-configuration``."""

    issuer: str
    authorization_endpoint: str


@click.command()
@click.option("--admin", "way", flag_value="admin", help="With the administrator's password, which is asked for.")
@click.option("--oidc", "way", flag_value="oidc", help="With a browser, at the identity provider.")
@server_options
def login(*, way: str | None, server: ServerFlags) -> None:
    """Log in at the API server of Magos and keep the token.

    Without --admin or --oidc the server says which it offers. A password is read from the terminal, or as one line
    from standard input; it is never an argument. The token is kept for this one server, in a file of mode 0600.
    """
    from magos.cli.tokens import Login, store

    here = session()
    address = server.needed(here, "a login")
    _warn_of_plain_http(address)
    with server.open(here, anonymous=True) as api:
        if way is None:
            offered = api.public_config()
            way = "oidc" if offered.oidc is not None and offered.oidc.issuer_url else "admin"
            if way == "admin" and not offered.admin_enabled:
                raise NotAllowed(f"{address} offers no login; use a token of a ServiceAccount with --token")
        token = _by_browser(server, here) if way == "oidc" else api.login_admin(_password())
    path = store(here.environ, Login(server=address, token=token.id_token, expires_at=token.expires_at))
    until = f" until {token.expires_at}" if token.expires_at else ""
    echo(one_line(f"Logged in at {address}{until}; the token is kept in {path}."))


def _password() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Password of admin", hide_input=True))
    password = sys.stdin.readline().removesuffix("\n")
    if not password:
        raise ConfigurationError("no password: type it, or give it as one line on standard input")
    return password


def _by_browser(server: ServerFlags, here: Session) -> "Token":
    from magos.cli.loopback import Redirect

    with server.open(here, anonymous=True) as api:
        oidc = api.public_config().oidc
        if oidc is None or not oidc.issuer_url:
            raise MagosError(f"{server.address(here)} has no identity provider; log in with --admin")
        client, verifier, state = oidc.cli_client_id or oidc.client_id, secrets.token_urlsafe(48), _random()
        endpoint = _endpoint(server, here, oidc.issuer_url)
        with Redirect(state) as redirect:
            query = {
                "response_type": "code",
                "client_id": client,
                "redirect_uri": redirect.uri,
                "scope": " ".join(dict.fromkeys((*_STANDARD_SCOPES, *oidc.scopes))),
                "state": state,
                "code_challenge": _challenge(verifier),
                "code_challenge_method": "S256",
            }
            page = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"
            echo(one_line(f"Log in with a browser on this machine: {page}"), error=True)
            webbrowser.open(page)
            code = redirect.code(_BROWSER_SECONDS)
        return api.exchange({"code": code, "codeVerifier": verifier, "redirectURI": redirect.uri, "clientID": client})


def _endpoint(server: ServerFlags, here: Session, issuer: str) -> str:
    """Return where the identity provider asks people; its document has to be its own and lead to a web page."""
    import httpx

    from magos.cli.api import trust

    address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    trusted = trust(server.authorities(here), beside_usual=True)
    try:
        with httpx.Client(timeout=10.0, verify=trusted, trust_env=False) as client:
            answer = client.get(address).raise_for_status()
        found = msgspec.json.decode(answer.content, type=_Discovery)
    except (httpx.HTTPError, msgspec.MsgspecError) as error:
        raise MagosError(f"the identity provider at {issuer} does not say how to log in: {error}") from error
    if found.issuer.rstrip("/") != issuer.rstrip("/"):
        raise MagosError(f"the identity provider at {issuer} calls itself {found.issuer}, so it is not trusted")
    if urlsplit(found.authorization_endpoint).scheme not in ("https", "http"):
        raise MagosError(f"the identity provider at {issuer} leads to {found.authorization_endpoint}, which is no page")
    return found.authorization_endpoint


def _random() -> str:
    return secrets.token_urlsafe(24)


def _challenge(verifier: str) -> str:
    """Return the S256 challenge of RFC 7636."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _warn_of_plain_http(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        echo(one_line(f"magos: {address} is not encrypted: whoever is on the way reads password and token"), error=True)


@click.command()
@server_options
def logout(*, server: ServerFlags) -> None:
    """Forget the token of the API server of Magos."""
    from magos.cli.tokens import forget

    here = session()
    address = server.needed(here, "a logout")
    there = forget(here.environ, address)
    echo(one_line(f"Logged out of {address}." if there else f"There was no login at {address}."))


@click.command()
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@server_options
def whoami(*, output: str, server: ServerFlags) -> None:
    """Say who you are for the API server of Magos, and which ServiceAccounts you act as."""
    from magos.cli.printing import print_exactly

    here = session()
    with server.open(here, "the question who you are") as api:
        found = api.whoami()
    if Output(output) is not Output.TABLE:
        print_exactly(found, Output(output))
        return
    echo(one_line(f"{found.username or found.subject} ({found.kind})"))
    for account in found.service_accounts:
        echo(one_line(f"  acts as ServiceAccount {account}"))
