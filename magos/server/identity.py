"""Who makes a request, as far as it is proved (spec §9.3)."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, field


class CallerKind(StrEnum):
    """How a caller proved who they are."""

    ADMIN = "admin"
    OIDC = "oidc"
    SERVICE_ACCOUNT = "serviceaccount"


class KubernetesUser(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A user of the cluster as a TokenReview names it and a SubjectAccessReview is asked about."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Caller(Struct, frozen=True, kw_only=True):
    """A caller whose credential was verified. ``username`` is for display and audit and decides nothing."""

    kind: CallerKind
    username: str
    subject: str
    expires_at: datetime | None = None
    claims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """OIDC: the claims that mappings may use."""
    user: KubernetesUser | None = None
    """ServiceAccount token: the user that the cluster knows."""
    by_cookie: bool = False
    """True if the session cookie was the credential: then unsafe requests need the CSRF token."""
