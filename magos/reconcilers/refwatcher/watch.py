"""What is to be polled for a Workspace, and with whose credentials.

Entries with equal URL and credentials are one ``ListingKey`` and share one listing. Credentials are known here by a
fingerprint only: it is equal for equal credentials, and nothing can be read out of it.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta

from msgspec import Struct

from magos.api.annotations import GIT_POLL_INTERVAL, MAXIMUM_INTERVAL, MINIMUM_POLL_INTERVAL
from magos.api.kube import SECRET_METADATA
from magos.api.workspace import WORKSPACES, Workspace
from magos.durations import parse_duration
from magos.ids import is_git_sha
from magos.runtime.decision import Query, QueryAnswer, Request, View

DEFAULT_POLL_INTERVAL = timedelta(seconds=30)

Version = tuple[str, str]
"""UID and resourceVersion."""


class RepositoryAccess(Query, frozen=True):
    """Which credentials ``namespace`` has for ``repo_url``. Value: ``Access``.

    ``versions`` are the labelled Secrets there as the caches have them: an answer holds until they change.
    """

    namespace: str
    repo_url: str
    versions: tuple[Version, ...]


class Access(Struct, frozen=True, kw_only=True):
    """What may be known about the access to a repository without knowing a value.

    ``secret`` is the repository Secret in force (spec §5.3), ``problem`` what is wrong with it; a fingerprint that is
    empty stands for anonymous access. ``similar`` are the Secrets of the namespace whose URL is probably a misspelling
    of this one, where none is in force; they are for hints to this namespace alone.
    """

    fingerprint: str = ""
    secret: str = ""
    problem: str = ""
    similar: tuple[str, ...] = ()


ANONYMOUS = Access()


class ListingKey(Struct, frozen=True, order=True):
    """What one listing answers for: a URL, byte for byte, asked with one set of credentials."""

    url: str
    fingerprint: str = ""


class Watch(Struct, frozen=True, kw_only=True):
    """The registry's entry of one Workspace; ``interval`` in seconds, ``host`` is the server whose slowness counts."""

    uid: str
    url: str
    target: str
    interval: float
    host: str = ""
    access: Access = ANONYMOUS

    @property
    def key(self) -> ListingKey:
        """The listing that this entry takes part in."""
        return ListingKey(self.url, self.access.fingerprint)

    def same_question(self, other: "Watch") -> bool:
        """Tell whether an answer to the other entry answers this one."""
        return (self.uid, self.url, self.target) == (other.uid, other.url, other.target)


class WatchSettings(Struct, frozen=True, kw_only=True):
    """``host_of`` names the server behind a URL, the empty text if it has none; it is pure."""

    default_interval: timedelta = DEFAULT_POLL_INTERVAL
    host_of: Callable[[str], str]


class Subject(Struct, frozen=True, kw_only=True):
    """A Workspace and how it is to be polled: not at all without ``watch``; not known yet while there is an ``ask``."""

    workspace: Workspace | None
    watch: Watch | None = None
    ask: RepositoryAccess | None = None


def observe(request: Request, view: View, settings: WatchSettings) -> Subject:
    """Return what the Workspace named by ``request`` wants; a full SHA and a terminating Workspace are not polled."""
    workspace = view.get(WORKSPACES, request.namespace, request.name)
    if workspace is None or workspace.metadata.deletion_timestamp is not None:
        return Subject(workspace=None)
    source = workspace.spec.source
    if is_git_sha(source.target_revision):
        return Subject(workspace=workspace)
    secrets = view.list(SECRET_METADATA, request.namespace)
    access = ANONYMOUS
    if secrets:
        versions = tuple((each.metadata.uid, each.metadata.resource_version) for each in secrets)
        query = RepositoryAccess(request.namespace, source.repo_url, versions)
        answer = view.answer(query)
        if answer is None:
            return Subject(workspace=workspace, ask=query)
        access = _access(answer)
    watch = Watch(
        uid=workspace.metadata.uid,
        url=source.repo_url,
        target=source.target_revision,
        interval=poll_interval(workspace.metadata.annotations, settings.default_interval).total_seconds(),
        host=settings.host_of(source.repo_url),
        access=access,
    )
    return Subject(workspace=workspace, watch=watch)


def poll_interval(values: Mapping[str, str], default: timedelta) -> timedelta:
    """Return the interval in force: the default if the annotation cannot be read, the bound if it is out of range.

    The workspace controller reports the replacement, as the condition ``InvalidAnnotations`` is its own.
    """
    text = values.get(GIT_POLL_INTERVAL)
    if text is None:
        return default
    try:
        return min(max(parse_duration(text), MINIMUM_POLL_INTERVAL), MAXIMUM_INTERVAL)
    except ValueError:
        return default


def _access(answer: QueryAnswer) -> Access:
    if answer.failure is not None:
        # Differs from every real fingerprint, so that it shares no listing: there are no credentials to list with.
        return Access(
            fingerprint=f"unreadable:{answer.failure.reason}",
            problem=f"the repository Secrets cannot be read: {answer.failure.message}; check the rights of RefWatcher",
        )
    if not isinstance(answer.value, Access):
        raise TypeError(f"RepositoryAccess was answered with {type(answer.value).__name__}")
    return answer.value
