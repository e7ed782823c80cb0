"""Which repository URLs probably mean the same repository: for hints to people, never for a decision.

A repository Secret belongs to a URL only if both are equal byte for byte (spec §5.3). Where none is, a Secret whose URL
merely looks alike is what somebody got wrong: a trailing slash, ``.git``, the case of the host, a user, a port, ssh
instead of https. Paths that differ in more than case are different repositories.
"""

import re
from collections.abc import Sequence

from magos.api.reasons import Reason

CREDENTIALS_MATTER = frozenset({Reason.GIT_FAILED, Reason.GIT_AUTHENTICATION_FAILED, Reason.UNKNOWN_HOST_KEY})
"""Failures that a repository Secret may mend: with its credentials, its CAs, its host keys."""

_URL = re.compile(
    r"[a-z][a-z0-9+.-]*://(?:[^/@]*@)?(?P<host>\[[^\]/]*\]|[^/:]*)(?::[0-9]*)?(?P<path>/.*)?", re.IGNORECASE | re.DOTALL
)
_SCP = re.compile(r"(?:[^/@:]*@)?(?P<host>\[[^\]/]*\]|[^/:@]+):(?P<path>.*)", re.DOTALL)
_SHOWN = 3


def likeness(repo_url: str) -> str:
    """Return what all spellings of a repository's URL have in common: ``host/path``, without anything secret."""
    found = _URL.fullmatch(repo_url) or _SCP.fullmatch(repo_url)
    host, path = (found["host"], found["path"] or "") if found else ("", repo_url)
    path = path.strip("/").lower()
    return f"{host.lower()}/{path.removesuffix('.git').rstrip('/')}"


def credentials_hint(similar: Sequence[str]) -> str:
    """Return what to say where no Secret belongs to the URL but these ones look as if they should; else nothing."""
    if not similar:
        return ""
    more = f" and {len(similar) - _SHOWN} more" if len(similar) > _SHOWN else ""
    return (
        "No repository Secret has exactly the URL of spec.source.repoURL; did you mean Secret"
        f" {', '.join(similar[:_SHOWN])}{more}? Its key repoURL must equal it byte for byte."
    )
