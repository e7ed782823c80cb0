"""Who may read ``/metrics`` in secure mode: who may ``get`` the non-resource URL ``/metrics`` in the cluster.

The bearer token of a request is shown to the API server twice: a TokenReview says whose it is, a SubjectAccessReview
whether that user may. Answers are kept for a minute by the digest of the token, so that scrapes do not double the load;
a failure of the API server refuses the request and is not kept.
"""

import hashlib
from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import Clock

KEPT = 60.0
_MOST_KEPT = 256
_PATH = "/metrics"


class _Review(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()


class _TokenSpec(Struct, frozen=True, rename="camel"):
    token: str = ""


class _User(Struct, frozen=True, rename="camel", omit_defaults=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class _TokenStatus(Struct, frozen=True, rename="camel"):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(_Review, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    spec: _TokenSpec = _TokenSpec()
    status: _TokenStatus = _TokenStatus()


class _Attributes(Struct, frozen=True, rename="camel"):
    path: str
    verb: str


class _AccessSpec(Struct, frozen=True, rename="camel", omit_defaults=True):
    non_resource_attributes: _Attributes | None = None
    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class _AccessStatus(Struct, frozen=True, rename="camel"):
    allowed: bool = False


class _AccessReview(_Review, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    spec: _AccessSpec = _AccessSpec()
    status: _AccessStatus = _AccessStatus()


_TOKEN_REVIEWS = Kind(
    group="authentication.k8s.io",
    version="v1",
    plural="tokenreviews",
    name="TokenReview",
    type=_TokenReview,
    namespaced=False,
)
_ACCESS_REVIEWS = Kind(
    group="authorization.k8s.io",
    version="v1",
    plural="subjectaccessreviews",
    name="SubjectAccessReview",
    type=_AccessReview,
    namespaced=False,
)


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
        review = await self._client.create(_TOKEN_REVIEWS, _TokenReview(spec=_TokenSpec(token)))
        if not review.status.authenticated:
            return AccessDecision.UNAUTHENTICATED
        user = review.status.user
        spec = _AccessSpec(
            non_resource_attributes=_Attributes(path=_PATH, verb="get"),
            user=user.username,
            uid=user.uid,
            groups=user.groups,
            extra=user.extra,
        )
        answer = await self._client.create(_ACCESS_REVIEWS, _AccessReview(spec=spec))
        return AccessDecision.ALLOWED if answer.status.allowed else AccessDecision.FORBIDDEN
