"""Makes one listing: reads the credentials, asks the Git server in a thread, forgets the credentials.

This is the one masking door of RefWatcher. What a server says may repeat what it was sent: an Authorization header in
an error line, a content type, the host of a redirect. Only here the credentials of the poll are known, so every text
about it is masked before it goes on to a condition, an Event or the log.
"""

import traceback
from collections.abc import Mapping

import anyio
from anyio.to_thread import run_sync
from msgspec import Struct

from magos.adapters.repositoryaccess import AccessReader
from magos.git.credentials import Credentials
from magos.git.errors import GitError
from magos.git.lsremote import LsRemotesRequest, Resolution, ls_remotes
from magos.git.tags import Tags
from magos.git.url import parse
from magos.ids import GitSHA
from magos.masking.message import masked
from magos.masking.redact import SecretForms, redact_echo
from magos.masking.secretforms import secret_forms
from magos.outbound.peers import Peers
from magos.reconcilers.refwatcher.machine import Failure
from magos.reconcilers.refwatcher.schedule import Listing, Poll
from magos.runtime.client.client import ApiClient
from magos.runtime.clock import Clock

LS_REMOTE_SECONDS = 10.0


class ListingCrashed(Exception):
    """A listing raised an unexpected exception; the text is its traceback, masked."""


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
        self._tags = Tags()

    async def __call__(self, poll: Poll) -> Listing:
        """Return the answer. Nothing is asked, and nothing answered, if the credentials are not those of the poll."""
        credentials = await self._access.read(self._client, poll.namespace, poll.access)
        return Listing() if credentials is None else await self._ask(poll, credentials)

    async def _ask(self, poll: Poll, credentials: Credentials) -> Listing:
        request = LsRemotesRequest(
            url=poll.key.url,
            targets=poll.targets,
            allowed_schemes=self._schemes,
            credentials=credentials,
            timeout=LS_REMOTE_SECONDS,
            peers=self._peers,
            tags=self._tags,
        )
        began = self._clock.monotonic()
        # Abandoned only when the process ends: otherwise the worker is taken for as long as the thread is.
        answer = await run_sync(_listed, request, abandon_on_cancel=True, limiter=self._threads)
        seconds = self._clock.monotonic() - began
        if isinstance(answer, _Refused):
            return Listing(
                results=dict.fromkeys(poll.targets, answer.failure), seconds=seconds, retry_after=answer.retry_after
            )
        return Listing(results=answer.results, seconds=seconds, retry_after=answer.retry_after)


class _Answer(Struct, frozen=True):
    """What is said about each target; an error of one of them may ask for patience, too."""

    results: Mapping[str, GitSHA | Failure]
    retry_after: float


class _Refused(Struct, frozen=True):
    """Nothing can be said about any target."""

    failure: Failure
    retry_after: float


def _listed(request: LsRemotesRequest) -> _Answer | _Refused:
    """Ask the server; all texts of what is returned or raised are masked."""
    try:
        found = ls_remotes(request)
    except GitError as error:
        return _Refused(_failure(error, request.credentials), error.retry_after or 0.0)
    except Exception as error:  # noqa: BLE001 - else its text, which may quote anything, goes to the log as it is
        text = "".join(traceback.format_exception(error))
        raise ListingCrashed(_masked(text, request.credentials)) from None
    waits = [each.retry_after or 0.0 for each in found.values() if isinstance(each, GitError)]
    results = {target: _result(each, request.credentials) for target, each in found.items()}
    return _Answer(results, max(waits, default=0.0))


def _result(each: Resolution | GitError, credentials: Credentials) -> GitSHA | Failure:
    return _failure(each, credentials) if isinstance(each, GitError) else each.sha


def _failure(error: GitError, credentials: Credentials) -> Failure:
    return Failure(error.reason, _masked(error.message, credentials))


def _masked(text: str, credentials: Credentials) -> str:
    forms = SecretForms(secret_forms(credentials.secrets()))
    return masked(text, lambda part: redact_echo(part, forms))


def host_of(url: str) -> str:
    """Return the server that has to answer for a URL; empty for what is no URL, which no server is asked about."""
    try:
        return str(parse(url).origin)
    except GitError:
        return ""
