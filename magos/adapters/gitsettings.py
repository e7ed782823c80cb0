"""Settings about Git servers that controllers and runner share: URL schemes, and addresses (spec §13.2).

An empty variable counts as unset, because that is how a manifest leaves one out.
"""

from collections.abc import Mapping

from magos.api.runnerpod import ALLOWED_GIT_SCHEMES, ALLOWED_PEERS, DEFAULT_SCHEMES, DENIED_PEERS
from magos.errors import ConfigurationError
from magos.outbound.peers import Network, Peers, parse_networks

_SCHEMES = ("https", "http", "ssh", "git", "file")


def allowed_schemes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the URL schemes that may be cloned from."""
    text = environ.get(ALLOWED_GIT_SCHEMES)
    if not text:
        return DEFAULT_SCHEMES
    schemes = tuple(part.strip() for part in text.split(","))
    wrong = next((scheme for scheme in schemes if scheme not in _SCHEMES), None)
    if wrong is not None:
        raise ConfigurationError(
            f"{ALLOWED_GIT_SCHEMES}: {wrong!r} is none of {', '.join(_SCHEMES)} (a list separated by commas)"
        )
    return schemes


def peers(environ: Mapping[str, str]) -> Peers:
    """Return which addresses Git and downloads of tools may connect to."""
    return Peers(denied=_networks(environ, DENIED_PEERS), allowed=_networks(environ, ALLOWED_PEERS))


def _networks(environ: Mapping[str, str], name: str) -> tuple[Network, ...]:
    try:
        return parse_networks(environ.get(name, ""))
    except ValueError as error:
        raise ConfigurationError(f"{name}: {error} (a list separated by commas)") from None
