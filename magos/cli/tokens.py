"""Where a login is kept: a file of mode 0600 for each server, below the configuration folder of the user."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from magos.errors import ConfigurationError
from magos.ids import short_hash
from magos.privatefile import write_private


class Login(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A token, and the server that it is for: it goes to no other."""

    server: str
    token: str
    expires_at: str = ""

    def __repr__(self) -> str:
        """Name the server without the token."""
        return f"Login({self.server})"


def token_file(environ: Mapping[str, str], server: str) -> Path:
    """Return where the token of this server is kept."""
    home = environ.get("HOME", "")
    base = environ.get("XDG_CONFIG_HOME", "") or (f"{home}/.config" if home else "")
    if not base:
        raise ConfigurationError("neither XDG_CONFIG_HOME nor HOME is set, so there is no place for a login")
    return Path(base) / "magos" / "logins" / f"{short_hash(server, 16)}.json"


def store(environ: Mapping[str, str], login: Login) -> Path:
    """Keep a login; return its file."""
    path = token_file(environ, login.server)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, msgspec.json.encode(login))
    return path


def stored_token(environ: Mapping[str, str], server: str) -> str:
    """Return the token of the last login at exactly this server, empty if there is none."""
    try:
        path = token_file(environ, server)
        login = msgspec.json.decode(path.read_bytes(), type=Login)
    except (ConfigurationError, OSError, msgspec.MsgspecError):
        return ""
    return login.token if login.server == server else ""


def forget(environ: Mapping[str, str], server: str) -> bool:
    """Remove the login at this server; tell whether there was one."""
    path = token_file(environ, server)
    there = path.exists()
    path.unlink(missing_ok=True)
    return there
