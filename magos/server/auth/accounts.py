"""ServiceAccount tokens: the API server says whose they are (TokenReview).

Answers are kept for at most 15 s by the digest of the token, refusals too; a failure is not kept. Requests with the
same token ask once. When a token expires stands in the token alone: the answer does not say it.
"""

import hashlib

import structlog

from magos.api.kube.reviews import TOKEN_REVIEWS, ReviewedUser, TokenReview, TokenReviewSpec
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import Clock
from magos.server.auth.memory import Memory
from magos.server.auth.signed import LONGEST, Unverified, end_of
from magos.server.identity import Caller, CallerKind, KubernetesUser
from magos.server.problems import Problem

PREFIX = "system:serviceaccount:"
_MOST_KEPT = 4096

log = structlog.get_logger(__name__)


class AccountTokens:
    """Verifies them. Raises ``Unverified``, and ``Problem`` 503 where the API server does not answer."""

    def __init__(self, client: ApiClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._answers: Memory[bytes, KubernetesUser | None] = Memory(clock, most=_MOST_KEPT)

    async def caller(self, token: str) -> Caller:
        """Return the ServiceAccount as a caller: it acts as itself. Other users of the cluster are not accepted."""
        if len(token) > LONGEST or not token.isascii():
            raise Unverified("no token")

        async def ask() -> KubernetesUser | None:
            return await self._ask(token)

        user = await self._answers.get(hashlib.sha256(token.encode()).digest(), ask)
        if user is None:
            raise Unverified("not a ServiceAccount of the cluster")
        return Caller(
            kind=CallerKind.SERVICE_ACCOUNT,
            username=user.username,
            subject=user.username,
            expires_at=end_of(token, self._clock.now()),
            user=user,
        )

    async def _ask(self, token: str) -> KubernetesUser | None:
        try:
            review = await self._client.create(TOKEN_REVIEWS, TokenReview(spec=TokenReviewSpec(token=token)))
        except ApiError as error:
            log.warning("no answer to a TokenReview", status=error.status, reason=error.reason)
            raise cluster_down() from None
        user = review.status.user
        if not review.status.authenticated or not user.username.startswith(PREFIX):
            return None
        return _known(user)


def cluster_down() -> Problem:
    """Return the answer where the API server of the cluster is needed and does not answer."""
    return Problem(503, "the Kubernetes API does not answer, try again later")


def _known(user: ReviewedUser) -> KubernetesUser:
    return KubernetesUser(username=user.username, uid=user.uid, groups=user.groups, extra=user.extra)
