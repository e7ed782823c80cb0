"""Who may read ``/metrics`` in secure mode: who may ``get`` the non-resource URL ``/metrics`` in the cluster.

The bearer token of a request is shown to the API server twice: a TokenReview says whose it is, a SubjectAccessReview
whether that user may. Answers are kept for a minute by the digest of the token, so that scrapes do not double the load;
a failure of the API server refuses the request and is not kept.
"""

import hashlib
from enum import IntEnum

from magos.api.kube.reviews import (
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    AccessReviewSpec,
    NonResourceAttributes,
    SubjectAccessReview,
    TokenReview,
    TokenReviewSpec,
)
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import Clock

KEPT = 60.0
_MOST_KEPT = 256
_PATH = "/metrics"


class AccessDecision(IntEnum):
    """The answer, as an HTTP status."""

    ALLOWED = 200
    UNAUTHENTICATED = 401
    FORBIDDEN = 403
    UNKNOWN = 503


class MetricsAuth:
    """See the module."""

    def __init__(self, client: ApiClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[bytes, tuple[float, AccessDecision]] = {}

    async def judge(self, authorization: str) -> AccessDecision:
        """Return whether a request with this ``Authorization`` header may read the metrics."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return AccessDecision.UNAUTHENTICATED
        digest = hashlib.sha256(token.encode()).digest()
        now = self._clock.monotonic()
        until, access = self._known.get(digest, (0.0, AccessDecision.UNKNOWN))
        if now < until:
            return access
        try:
            access = await self._ask(token)
        except ApiError:
            return AccessDecision.UNKNOWN
        if len(self._known) >= _MOST_KEPT:
            self._known.clear()
        self._known[digest] = (now + KEPT, access)
        return access

    async def _ask(self, token: str) -> AccessDecision:
        review = await self._client.create(TOKEN_REVIEWS, TokenReview(spec=TokenReviewSpec(token=token)))
        if not review.status.authenticated:
            return AccessDecision.UNAUTHENTICATED
        user = review.status.user
        spec = AccessReviewSpec(
            non_resource_attributes=NonResourceAttributes(path=_PATH, verb="get"),
            user=user.username,
            uid=user.uid,
            groups=user.groups,
            extra=user.extra,
        )
        answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, SubjectAccessReview(spec=spec))
        return AccessDecision.ALLOWED if answer.status.allowed else AccessDecision.FORBIDDEN
