"""Makes one listing: reads the credentials, asks the Git server in a thread, forgets the credentials."""

import anyio
from anyio.to_thread import run_sync

from magos.apps.refwatcher_access import AccessReader
from magos.git.credentials import Credentials
from magos.git.errors import GitError
from magos.git.lsremote import LsRemotesRequest, ls_remotes
from magos.git.url import parse
from magos.outbound.peers import Peers
from magos.reconcilers.refwatcher.machine import Failure
from magos.reconcilers.refwatcher.schedule import Listing, Poll
from magos.runtime.client.client import ApiClient
from magos.runtime.clock import Clock

__all__ = ["LS_REMOTE_SECONDS", "GitLister", "host_of"]

LS_REMOTE_SECONDS = 10.0


class GitLister:
    """Answers polls; at most ``threads`` at a time. Raises ``ApiError`` if the credentials cannot be read now."""

    def __init__(
        self,
        client: ApiClient,
        access: AccessReader,
        clock: Clock,
        *,
        allowed_schemes: tuple[str, ...],
        peers: Peers = Peers(),  # noqa: B008  # immutable
        threads: int,
    ) -> None:
        self._client = client
        self._access = access
        self._clock = clock
        self._schemes = allowed_schemes
        self._peers = peers
        self._threads = anyio.CapacityLimiter(threads)

    async def __call__(self, poll: Poll) -> Listing:
        """Return the answer. Nothing is asked, and nothing answered, if the credentials are not those of the poll."""
        credentials = await self._access.read(self._client, poll.namespace, poll.access)
        return Listing() if credentials is None else await self._ask(poll, credentials)

    async def _ask(self, poll: Poll, credentials: Credentials) -> Listing:
        request = LsRemotesRequest(
            url=poll.source.url,
            targets=poll.targets,
            allowed_schemes=self._schemes,
            credentials=credentials,
            timeout=LS_REMOTE_SECONDS,
            peers=self._peers,
        )
        began = self._clock.monotonic()
        try:
            # Abandoned only when the process ends: otherwise the worker is taken for as long as the thread is.
            found = await run_sync(ls_remotes, request, abandon_on_cancel=True, limiter=self._threads)
        except GitError as error:
            failure = Failure(error.reason, error.message)
            return Listing(
                results=dict.fromkeys(poll.targets, failure),
                seconds=self._clock.monotonic() - began,
                retry_after=error.retry_after or 0.0,
            )
        results = {
            target: Failure(each.reason, each.message) if isinstance(each, GitError) else each.sha
            for target, each in found.items()
        }
        return Listing(results=results, seconds=self._clock.monotonic() - began)


def host_of(url: str) -> str:
    """Return the server that has to answer for a URL; empty for what is no URL, which no server is asked about."""
    try:
        return str(parse(url).origin)
    except GitError:
        return ""
