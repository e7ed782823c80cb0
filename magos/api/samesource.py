"""Whether two Workspaces follow the same repository and reference, however each spells it (spec §6.4, rule 8).

1. For comparison alone: what is fetched, which Secret is in force and what is stored go by the text as it is written.
2. One repository: the same host, port and path. No difference are the scheme, the user, the case of the host, a port
   that the scheme has anyway, ``.git``, slashes and dots that lead nowhere, percent signs that hide plain characters,
   and the scp-like form. The case of a path is one.
3. One reference: some reference that both names can lead to by the rules of spec §6.7. A bare name may be a branch or
   a tag, so ``v1`` is compared with ``refs/heads/v1`` and with ``refs/tags/v1``, which are not the same themselves.
   Where ``HEAD`` leads is known to the server alone: it equals only itself.
4. What is no URL equals only the same text.
"""

import ipaddress
import posixpath
import re
from functools import lru_cache
from urllib.parse import unquote

from magos.api.workspace import Source
from magos.ids import is_git_sha

_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9.+-]*)://(?:[^/@]*@)?(?P<host>\[[^\]/]*\]|[^/:]*)(?::(?P<port>[0-9]*))?(?P<path>/.*)?",
    re.IGNORECASE | re.DOTALL,
)
_SCP = re.compile(r"(?:[^/@:]*@)?(?P<host>\[[^\]/]*\]|[^/:@\[\]]+):(?P<path>.+)", re.DOTALL)
_PORTS = {"https": "443", "http": "80", "ssh": "22", "git+ssh": "22", "git": "9418", "file": ""}
_IN_THE_SHELL = frozenset({"ssh", "git+ssh", "file"})
"""Schemes whose path is decoded before it is used: ``%2F`` is a slash there, and only there."""
_KNOWN = 4096

_Repository = tuple[str, str, str]


def same_source(one: Source, other: Source) -> bool:
    """Tell whether both may mean the same reference of the same repository. ``path`` does not matter."""
    return _repository(one.repo_url) == _repository(other.repo_url) and not _references(one.target_revision).isdisjoint(
        _references(other.target_revision)
    )


@lru_cache(maxsize=_KNOWN)
def _repository(text: str) -> _Repository:
    """Return host, port (empty for the scheme's own) and path."""
    if text.startswith("/"):
        return "", "", _path(text)
    if url := _URL.fullmatch(text):
        scheme, path = url["scheme"].lower(), url["path"] or ""
        if scheme not in _PORTS:
            return "", "", text
        if scheme not in _IN_THE_SHELL:
            path = re.sub("%2f", "%252F", path, flags=re.IGNORECASE)
        port = (url["port"] or "").lstrip("0")
        host = "" if scheme == "file" else _host(url["host"])
        path = _path(unquote(path))
        return host, "" if port == _PORTS[scheme] else port, _of_home(path) if "ssh" in scheme else path
    if scp := _SCP.fullmatch(text):
        return _host(scp["host"]), "", _of_home(_path(scp["path"]))
    return "", "", text


@lru_cache(maxsize=_KNOWN)
def _references(target: str) -> frozenset[str]:
    """Return what the name can lead to; a full commit ID leads to itself."""
    if is_git_sha(target) or target == "HEAD":
        return frozenset({target})
    verbatim = {target} if target.startswith("refs/") else set()
    return frozenset({f"refs/heads/{target}", f"refs/tags/{target}"} | verbatim)


def _host(text: str) -> str:
    host = text.lower().rstrip(".")
    if not host.startswith("["):
        return host
    try:
        return f"[{ipaddress.IPv6Address(host[1:-1])}]"
    except ValueError:
        return host


def _path(text: str) -> str:
    path = posixpath.normpath(f"/{text}").strip("/")
    return path.removesuffix(".git").rstrip("/")


def _of_home(path: str) -> str:
    """A path that the SSH user's home begins is what the scp-like form has without it."""
    return path.removeprefix("~/")
