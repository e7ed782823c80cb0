"""What programs log in with, and what anybody may know of how to: operations of the API (spec §9.2, §9.3)."""

from typing import Annotated

import msgspec
import structlog
from msgspec import UNSET, Meta, Struct, UnsetType, field
from starlette.requests import Request
from starlette.responses import Response

from magos.runtime.clock import Clock
from magos.server.auth import csrf
from magos.server.auth.access import ReviewedAccess
from magos.server.auth.admin import AdminTokens
from magos.server.auth.clientaddress import client_address
from magos.server.auth.codeflow import CodeFlow
from magos.server.auth.mappings import Mappings
from magos.server.auth.passwords import Passwords
from magos.server.auth.ratelimit import RateLimiter
from magos.server.auth.settings import AuthSettings
from magos.server.encoding import answer
from magos.server.identity import CallerKind
from magos.server.problems import Problem
from magos.server.table import Answer, Call, Operation

API = "/api/v1alpha1"
_LARGEST_BODY = 16 * 1024

log = structlog.get_logger(__name__)


class Proofs(Struct, frozen=True, kw_only=True):
    """What proves who somebody is. ``flow`` is None without an identity provider."""

    settings: AuthSettings
    clock: Clock
    access: ReviewedAccess
    mappings: Mappings
    admin: AdminTokens
    passwords: Passwords
    limiter: RateLimiter
    flow: CodeFlow | None
    version: str

    async def check_password(self, request: Request, password: str) -> None:
        """Accept the password of the admin; ``Problem`` 403, 429."""
        address = client_address(request, self.settings.trusted_proxies)
        self.limiter.begin(address)
        if not await self.passwords.is_right(password):
            log.warning("login as admin failed", address=address)
            raise failed()
        self.limiter.succeeded(address)
        log.info("admin logged in", address=address)


class AdminToken(Struct, frozen=True, kw_only=True, rename="camel"):
    """The admin is logged in."""

    id_token: str
    """The bearer token of the admin."""

    def __repr__(self) -> str:
        return "AdminToken(<hidden>)"


class CodeExchange(Struct, frozen=True, kw_only=True, rename="camel"):
    """A code of the identity provider, which a program got for a person."""

    code: str
    """The code, which serves once."""

    code_verifier: str
    """What the challenge of PKCE was made of."""

    redirect_uri: str = field(name="redirectURI")
    """Where the provider sent the code: on the machine of the program, or the login page of this server."""

    client_id: str = field(name="clientID")
    """The client that asked for the code, as public-config names it."""

    def __repr__(self) -> str:
        return "CodeExchange(<hidden>)"


class PersonToken(Struct, frozen=True, kw_only=True, rename="camel"):
    """The person is logged in."""

    id_token: str
    """The bearer token of the person."""

    expires_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})] | None
    """Until when the token is accepted."""

    def __repr__(self) -> str:
        return f"PersonToken(<hidden>, expires_at={self.expires_at!r})"


class WhoAmI(Struct, frozen=True, kw_only=True, rename="camel"):
    """The caller, as the server has verified it."""

    kind: CallerKind
    """How the caller proved who they are."""

    username: str
    """For display and audit; it decides nothing."""

    subject: str
    """What the issuer of the token calls the caller."""

    service_accounts: tuple[str, ...]
    """`namespace/name` of the ServiceAccounts that the caller acts as wherever a request leads."""


class OidcConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The identity provider, and how programs ask it."""

    issuer_url: str = field(name="issuerURL")
    client_id: str = field(name="clientID")
    cli_client_id: str = field(name="cliClientID")
    """The client of the command line; empty if it has none of its own."""

    scopes: tuple[str, ...]
    username_claim: str


class PublicConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """How one logs in here."""

    admin_enabled: bool
    version: str
    oidc: OidcConfig | UnsetType = UNSET
    """Left out where there is no identity provider."""


def operations(proofs: Proofs) -> list[Operation]:
    """Return the operations."""
    programs = _Programs(proofs)
    return [
        Operation(
            method="POST",
            path=f"{API}/auth/login",
            handler=programs.password_for_token,
            summary="Log in as the admin",
            description="The password is sent as `Authorization: Bearer <password>`. A wrong one and a disabled account"
            " get the same answer.",
            answer=Answer(description="The token of the admin.", type=AdminToken),
            refusals=(403, 429),
            open=True,
        ),
        Operation(
            method="POST",
            path=f"{API}/auth/token",
            handler=programs.code_for_token,
            summary="Exchange a code of the identity provider",
            description="404 where no identity provider is set.",
            body=CodeExchange,
            answer=Answer(description="The token of the person.", type=PersonToken),
            refusals=(400, 404, 411, 413, 502),
            open=True,
        ),
        Operation(
            method="GET",
            path=f"{API}/auth/whoami",
            handler=programs.whoami,
            summary="Tell who the caller is",
            answer=Answer(description="The caller.", type=WhoAmI),
        ),
        Operation(
            method="GET",
            path=f"{API}/system/public-config",
            handler=programs.public_config,
            summary="Tell how one logs in",
            answer=Answer(description="What anybody may know.", type=PublicConfig),
            open=True,
        ),
    ]


class _Programs:
    def __init__(self, proofs: Proofs) -> None:
        self._proofs = proofs

    async def password_for_token(self, call: Call) -> Response:
        scheme, _, password = call.request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not password:
            raise failed()
        text = password.encode("latin-1").decode("utf-8", "surrogateescape")
        await self._proofs.check_password(call.request, text)
        return _kept_by_nobody(AdminToken(id_token=self._proofs.admin.mint()))

    async def code_for_token(self, call: Call) -> Response:
        flow = self._proofs.flow
        if flow is None:
            raise Problem(404, "no identity provider is set, see OIDC_ISSUER_URL")
        try:
            wanted = msgspec.json.decode(await csrf.body_of(call.request, _LARGEST_BODY), type=CodeExchange)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise Problem(400, "the body is not JSON with code, codeVerifier, redirectURI and clientID") from None
        done = await flow.exchange(wanted.code, wanted.code_verifier, wanted.redirect_uri, wanted.client_id)
        expires_at = done.caller.expires_at
        return _kept_by_nobody(
            PersonToken(id_token=done.id_token, expires_at=expires_at.isoformat() if expires_at else None)
        )

    async def whoami(self, call: Call) -> Response:
        caller = call.caller
        return _kept_by_nobody(
            WhoAmI(
                kind=caller.kind,
                username=caller.username,
                subject=caller.subject,
                service_accounts=self._proofs.access.accounts(caller),
            )
        )

    async def public_config(self, call: Call) -> Response:
        del call
        settings, oidc = self._proofs.settings, self._proofs.settings.oidc
        known = PublicConfig(
            admin_enabled=settings.admin.enabled,
            version=self._proofs.version,
            oidc=UNSET
            if oidc is None
            else OidcConfig(
                issuer_url=oidc.issuer,
                client_id=oidc.client_id,
                cli_client_id=oidc.cli_client_id,
                scopes=tuple(oidc.scopes),
                username_claim=oidc.username_claim,
            ),
        )
        return _kept_by_nobody(known)


def failed() -> Problem:
    """Return the answer to a wrong password, which is also that to a right one of a disabled account."""
    return Problem(403, "login failed")


def _kept_by_nobody(value: Struct) -> Response:
    response = answer(value)
    response.headers["Cache-Control"] = "no-store"
    return response
