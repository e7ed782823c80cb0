"""Addresses: of our own pages, and of commits and releases at their hosts. All that is made of texts of others."""

import re
from urllib.parse import quote, urlencode, urlsplit

from msgspec import Struct

from magos.api.tool import Distribution
from magos.api.workspace import Source, Terraform
from magos.ids import is_git_sha

_SCP = re.compile(r"(?:[^@/\s]+@)?(?P<host>[A-Za-z0-9._-]+):(?P<path>[^/].*)")
_HOSTS = {"github": "commit", "gitlab": "-/commit", "bitbucket": "commits", "gitea": "commit", "forgejo": "commit"}
_HOST = re.compile(r"[A-Za-z0-9._-]+(?::[0-9]{1,5})?")


class Commit(Struct, frozen=True, kw_only=True):
    """A commit: its full ID, 7 digits of it, and its page at the forge (empty where none is known)."""

    full: str
    short: str
    url: str


class Repository(Struct, frozen=True, kw_only=True):
    """A repository: its URL without credentials, a short name, its page (empty where none is known) and its icon."""

    shown: str
    name: str
    url: str
    icon: str


def page(kind: str, namespace: str, name: str, *rest: str) -> str:
    """Return the path of an object's page below the root of the UI, such as ``/workspaces/shop/dev``."""
    return "/" + "/".join(quote(part, safe="") for part in (kind, namespace, name, *rest))


def query(path: str, **parameters: str | int) -> str:
    """Return ``path`` with those parameters that are not empty."""
    wanted = {key.rstrip("_"): value for key, value in parameters.items() if value != ""}
    return f"{path}?{urlencode(wanted)}" if wanted else path


def repository(source: Source) -> Repository:
    """Return how a repository is shown. Only a web address of http or https becomes a link, and no user name is."""
    host, path, secure = _parts(source.repo_url)
    forge = next((name for name in _HOSTS if name in host.lower()), "")
    name = path.strip("/").removesuffix(".git")
    shown = f"{host}/{name}" if host else name
    known = bool(forge or secure) and _HOST.fullmatch(host) is not None
    url = f"https://{host}/{quote(name)}" if known and name else ""
    return Repository(shown=shown, name="/".join(name.split("/")[-2:]) or shown, url=url, icon=forge or "git")


def commit(source: Source, revision: str) -> Commit | None:
    """Return how a commit is shown; None for no commit. It is a link where the layout of the forge is known."""
    if not revision:
        return None
    whole = is_git_sha(revision)
    at = repository(source)
    part = _HOSTS.get(at.icon, "")
    url = f"{at.url}/{part}/{revision}" if whole and part and at.url else ""
    return Commit(full=revision, short=revision[:7], url=url)


def release(tool: Terraform) -> str:
    """Return the address of the release notes of a tool's version."""
    owner = "opentofu/opentofu" if tool.distribution is Distribution.OPENTOFU else "hashicorp/terraform"
    return f"https://github.com/{owner}/releases/tag/v{quote(tool.version, safe='')}"


def _parts(url: str) -> tuple[str, str, bool]:
    """Return host, path, and whether the URL is one of https."""
    try:
        split = urlsplit(url)
        if split.scheme and split.netloc:
            port = f":{split.port}" if split.port and split.scheme.startswith("http") else ""
            return (split.hostname or "") + port, split.path, split.scheme == "https"
    except ValueError:
        return "", url.rpartition("@")[2], False
    scp = _SCP.fullmatch(url)
    return (scp["host"], scp["path"], False) if scp else ("", url.rpartition("@")[2], False)
