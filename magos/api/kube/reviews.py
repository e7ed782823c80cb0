"""Questions to the API server: whose token it is (TokenReview), and what a user may do (SubjectAccessReview)."""

from collections.abc import Mapping

from msgspec import Struct, field

from magos.api.meta import Kind, ObjectMeta


class ReviewedUser(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A user as the API server knows it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class TokenReviewSpec(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """The token that is asked about."""

    token: str = ""

    def __repr__(self) -> str:
        """Hide the token: it is a credential."""
        return "TokenReviewSpec(token=<hidden>)"


class TokenReviewStatus(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """The answer: ``user`` counts only where ``authenticated`` is true."""

    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()


class TokenReview(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``authentication.k8s.io/v1``: whose token is this? Nothing is stored."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TokenReviewSpec = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()


class NonResourceAttributes(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """A URL of the API server, and what is done with it."""

    path: str
    verb: str


class ResourceAttributes(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A resource, and what is done with it. An empty ``namespace`` means all, an empty ``name`` any."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class AccessReviewSpec(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Who wants to do what: one of the two attributes."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class AccessReviewStatus(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """The answer. ``denied`` is a refusal that no other authoriser may overrule."""

    allowed: bool = False
    denied: bool = False


class SubjectAccessReview(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """``authorization.k8s.io/v1``: may this user do that? Nothing is stored."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AccessReviewSpec = AccessReviewSpec()
    status: AccessReviewStatus = AccessReviewStatus()


TOKEN_REVIEWS = Kind(
    group="authentication.k8s.io",
    version="v1",
    plural="tokenreviews",
    name="TokenReview",
    type=TokenReview,
    namespaced=False,
)
SUBJECT_ACCESS_REVIEWS = Kind(
    group="authorization.k8s.io",
    version="v1",
    plural="subjectaccessreviews",
    name="SubjectAccessReview",
    type=SubjectAccessReview,
    namespaced=False,
)
