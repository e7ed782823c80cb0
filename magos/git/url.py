"""Repository URLs: parsing, the scheme policy and the form that may be shown.

``parse`` accepts ``https:// http:// ssh:// git+ssh:// git:// file://``, an absolute path and the scp-like
``[user@]host:path`` (git-clone(1), "GIT URLS") and nothing else: no remote helper (``ext::``), no password, no user
name but for SSH (forges take a token for one), no blanks or control characters, no leading ``-`` that a command line
could take for an option.
"""

import ipaddress
import re
from collections.abc import Collection
from enum import StrEnum
from typing import NoReturn
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from magos.git.errors import GitError, GitReason

_LONGEST = 2048
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ufeff]")
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.\-]*::")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://")
_SCP = re.compile(r"(?:(?P<user>[^@:/\[\]]+)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^@:/\[\]]+):(?P<path>.+)", re.DOTALL)
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.\-]*[A-Za-z0-9_.])?")
_USER = re.compile(r"[^@:/\-][^@:/]*")
_USERINFO = re.compile(r"(?<=//)[^/?#\s]*@")
_HTTP_USER = re.compile(r"^(https?://)[^/?#@:\s]*@", re.IGNORECASE)


class Scheme(StrEnum):
    """The classes the allow-list speaks of: ``ssh`` covers ``git+ssh`` and scp-like, ``file`` covers local paths."""

    HTTPS = "https"
    HTTP = "http"
    SSH = "ssh"
    GIT = "git"
    FILE = "file"


_SCHEMES = {scheme.value: scheme for scheme in Scheme} | {"git+ssh": Scheme.SSH}
_USE = f"use {', '.join(sorted(_SCHEMES))} or user@host:path, where MAGOS_ALLOWED_GIT_SCHEMES allows it"
_PORTS = {Scheme.HTTPS: 443, Scheme.HTTP: 80, Scheme.SSH: 22, Scheme.GIT: 9418, Scheme.FILE: 0}


class Origin(msgspec.Struct, frozen=True):
    """Scheme, host and port: URLs that share all three may be sent the repository's credentials."""

    scheme: Scheme
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")


class RepoURL(msgspec.Struct, frozen=True):
    """A checked repository URL. ``host`` is lower-case and without brackets, ``port`` is what was written, if any.

    ``path`` starts with ``/`` except in the scp-like form, where it may be relative to the SSH user's home.
    """

    scheme: Scheme
    host: str
    port: int | None
    user: str | None
    path: str
    scp: bool = False

    @property
    def origin(self) -> Origin:
        """Scheme, host and effective port."""
        return Origin(self.scheme, self.host, self.port or _PORTS[self.scheme])

    def __str__(self) -> str:
        """Return the URL without userinfo, fit for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.scp:
            return f"{host}:{self.path}"
        return f"{self.scheme}://{host}" + (f":{self.port}" if self.port else "") + self.path


def strip_userinfo(text: str) -> str:
    """Return ``text`` with the userinfo of every URL in it removed."""
    return _USERINFO.sub("", text)


def parse(text: str) -> RepoURL:
    """Return the checked form of ``text``.

    Raises ``GitError``: SchemeNotAllowed for a remote helper or an unknown scheme, else GitFailed.
    """
    if not text or len(text) > _LONGEST:
        _refuse(f"a repository URL must have 1 to {_LONGEST} characters, this one has {len(text)}")
    if _FORBIDDEN.search(text) or text.startswith("-"):
        _refuse("the repository URL must not contain blanks or control characters or start with '-'")
    if _HELPER.match(text):
        raise GitError(GitReason.SCHEME_NOT_ALLOWED, f"Git remote helpers (helper::address) are not supported; {_USE}")
    if text.startswith("/"):
        return RepoURL(Scheme.FILE, "", None, None, text)
    if match := _URL.match(text):
        scheme = _SCHEMES.get(match[1].lower())
        if scheme is None:
            raise GitError(GitReason.SCHEME_NOT_ALLOWED, f"scheme {match[1]!r} is not supported; {_USE}")
        return _from_url(scheme, text)
    if match := _SCP.fullmatch(text):
        host, user, path = _host(match["host"]), match["user"], match["path"]
        _check_user(user)
        if path.startswith("-"):
            _refuse("the path of a repository URL must not start with '-'")
        return RepoURL(Scheme.SSH, host, None, user, path, scp=True)
    raise GitError(
        GitReason.GIT_FAILED, "the repository URL must be an http(s), ssh, git+ssh or scp-like URL (user@host:path)"
    )


def check_scheme(url: RepoURL, allowed: Collection[str]) -> None:
    """Raise ``GitError`` (SchemeNotAllowed) unless the URL's scheme class is in ``allowed``."""
    if url.scheme not in allowed:
        raise GitError(
            GitReason.SCHEME_NOT_ALLOWED,
            f"{url}: scheme {url.scheme.value!r} is not allowed (allowed: {', '.join(allowed) or 'none'});"
            " use another URL or extend MAGOS_ALLOWED_GIT_SCHEMES",
        )


def relative_to(base: RepoURL, reference: str) -> RepoURL:
    """Resolve a submodule URL: one that starts with ``./`` or ``../`` against ``base`` (gitmodules(5)), else as it is.

    The user name of an http(s) URL, which several forges put into the URLs they offer, is left out: a repository's own
    files say nothing about who logs in. Raises ``GitError`` (GitFailed) if the reference climbs above the host.
    """
    if not reference.startswith(("./", "../")):
        return parse(_HTTP_USER.sub(r"\1", reference))
    parts = base.path.rstrip("/").split("/")
    for step in reference.split("/"):
        if step in {"", "."}:
            continue
        if step != "..":
            parts.append(step)
        elif not parts or parts == [""]:
            _refuse(f"the submodule URL {reference!r} climbs above the host of {base}; correct .gitmodules")
        else:
            parts.pop()
    path = "/".join(parts)
    if _FORBIDDEN.search(path) or path.startswith("-") or not path.strip("/"):
        _refuse(f"the submodule URL {reference!r} relative to {base} is not a repository URL; correct .gitmodules")
    return msgspec.structs.replace(base, path=path)


def _from_url(scheme: Scheme, text: str) -> RepoURL:
    try:
        parts = urlsplit(text)
        port, credentials = parts.port, _credentials(scheme, parts)
    except ValueError:  # its text repeats what it could not read, which may be a password with a slash
        _refuse("the repository URL has no valid host and port; correct it, credentials belong in a repository Secret")
    shown = strip_userinfo(text)
    if credentials:
        _refuse(f"{shown}: put credentials in a repository Secret, not in the repository URL; {credentials}")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        _refuse(f"{shown}: a repository URL has no query and no fragment; remove them")
    if scheme is Scheme.FILE:
        return _local(parts, shown)
    if port == 0 or not parts.path.strip("/"):
        _refuse(
            f"{shown}: " + ("port 0 cannot be connected to" if port == 0 else "the path of the repository is missing")
        )
    user = unquote(parts.username) if parts.username else None
    _check_user(user)
    bracketed = parts.netloc.rpartition("@")[2].startswith("[")
    host = _host(f"[{parts.hostname}]" if bracketed else parts.hostname or "")
    path = unquote(parts.path) if scheme is Scheme.SSH else parts.path
    if _FORBIDDEN.search(path):
        _refuse(f"{shown}: the path hides blanks or control characters behind percent signs; rename the repository")
    return RepoURL(scheme, host, port, user, path)


def _credentials(scheme: Scheme, parts: SplitResult) -> str:
    """Return what to remove from the URL, nothing if it holds no credentials."""
    if parts.password is not None:
        return "remove the password"
    if scheme is not Scheme.SSH and "@" in parts.netloc:
        return "remove everything before the '@': a user name there may be a token"
    return ""


def _local(parts: SplitResult, shown: str) -> RepoURL:
    path = unquote(parts.path)
    if parts.netloc.lower() not in {"", "localhost"} or not path.strip("/") or _FORBIDDEN.search(path):
        _refuse(f"{shown}: a file URL has no host and an absolute path (file:///srv/repository.git)")
    return RepoURL(Scheme.FILE, "", None, None, path)


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            return str(ipaddress.IPv6Address(text[1:-1]))
        except ValueError:
            _refuse(f"{text} is not an IPv6 address")
    if not _HOST.fullmatch(text):
        _refuse("the repository URL has no valid host name (letters, digits, '-', '.', '_'; IDN as xn--…)")
    return text.lower()


def _check_user(user: str | None) -> None:
    if user is not None and (not _USER.fullmatch(user) or _FORBIDDEN.search(user)):
        _refuse("the user name in the repository URL is not valid")


def _refuse(message: str) -> NoReturn:
    raise GitError(GitReason.GIT_FAILED, message)
