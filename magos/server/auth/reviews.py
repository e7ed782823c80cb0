"""What the cluster says of a right: one SubjectAccessReview a user and right, remembered for at most 15 seconds."""

import structlog

from magos.api.kube.reviews import (
    SUBJECT_ACCESS_REVIEWS,
    AccessReviewSpec,
    ResourceAttributes,
    SubjectAccessReview,
)
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.clock import Clock
from magos.server.access import Right
from magos.server.auth.accounts import PREFIX, cluster_down
from magos.server.auth.mappings import Account
from magos.server.auth.memory import Memory
from magos.server.identity import KubernetesUser

GROUP = "magosproject.io"
_MOST_KEPT = 50_000

log = structlog.get_logger(__name__)

_Key = tuple[str, str, frozenset[str], tuple[tuple[str, tuple[str, ...]], ...], Right]


class Reviews:
    """Asks them. Raises ``Problem`` 503 where the API server does not answer."""

    def __init__(self, client: ApiClient, clock: Clock) -> None:
        self._client = client
        self._decisions: Memory[_Key, bool] = Memory(clock, most=_MOST_KEPT)

    async def allowed(self, user: KubernetesUser, right: Right) -> bool:
        """Tell whether the user has the right."""
        key = (user.username, user.uid, frozenset(user.groups), tuple(sorted(user.extra.items())), right)

        async def ask() -> bool:
            return await self._ask(user, right)

        return await self._decisions.get(key, ask)

    async def _ask(self, user: KubernetesUser, right: Right) -> bool:
        attributes = ResourceAttributes(
            verb=right.verb.value,
            group=GROUP,
            resource=right.resource,
            subresource=right.subresource,
            namespace=right.namespace,
            name=right.name,
        )
        spec = AccessReviewSpec(
            resource_attributes=attributes, user=user.username, uid=user.uid, groups=user.groups, extra=user.extra
        )
        try:
            answer = await self._client.create(SUBJECT_ACCESS_REVIEWS, SubjectAccessReview(spec=spec))
        except ApiError as error:
            log.warning(
                "no answer to a SubjectAccessReview", right=str(right), status=error.status, reason=error.reason
            )
            raise cluster_down() from None
        return answer.status.allowed and not answer.status.denied


def user_of(account: Account) -> KubernetesUser:
    """Return the user that a ServiceAccount is."""
    return KubernetesUser(
        username=f"{PREFIX}{account.namespace}:{account.name}",
        groups=("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", "system:authenticated"),
    )
