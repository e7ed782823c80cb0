"""Wrong settings end the start with one line that names the variable and shows no secret (spec §9.5)."""

import pytest
from structlog.testing import capture_logs

from magos.errors import ConfigurationError
from magos.server.auth.settings import load_auth_settings
from tests.unit.server.auth.world import ENVIRON, HASH, settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAGOS_BASE_URL", "magos.example.com"),
        ("MAGOS_BASE_URL", "https://u:p@magos.example.com"),
        ("MAGOS_BASE_URL", "https://magos.example.com/?x"),
        ("ADMIN_ACCOUNT_ENABLED", "yes"),
        ("ADMIN_ACCOUNT_PASSWORD_HASH", "plain-password"),
        ("ADMIN_ACCOUNT_PASSWORD_HASH", HASH.replace("$04$", "$31$")),
        ("ADMIN_ACCOUNT_PASSWORD_HASH", HASH[:-1]),
        ("ADMIN_ACCOUNT_TOKEN_SIGNING_KEY", "short-and-secret"),
        ("MAGOS_SESSION_SIGNING_KEY", "x" * 31),
        ("ADMIN_ACCOUNT_TOKEN_TTL", "soon"),
        ("MAGOS_SESSION_TTL", "10000h"),
        ("OIDC_ISSUER_URL", "http://issuer.example.com"),
        ("OIDC_ISSUER_URL", "https://magos.example.com"),
        ("OIDC_ISSUER_URL", ""),
        ("OIDC_CLIENT_ID", ""),
        ("OIDC_CA_FILE", "/nowhere"),
        ("MAGOS_DEX_URL", "dex"),
        ("POD_NAMESPACE", "Not A Namespace"),
        ("MAGOS_GLOBAL_SERVICE_ACCOUNT_NAMESPACES", "a,B"),
        ("MAGOS_TRUSTED_PROXIES", "10.0.0.1/8"),
    ],
)
def test_what_is_wrong_is_named_without_its_secret(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name) as raised:
        settings(**{name: value})
    if "HASH" in name or "KEY" in name or "@" in value:
        assert value not in str(raised.value)


@pytest.mark.parametrize("form", ["2a", "2b", "2y"])
def test_all_forms_of_bcrypt_are_taken(form: str) -> None:
    assert settings(ADMIN_ACCOUNT_PASSWORD_HASH=HASH.replace("$2b$", f"${form}$")).admin.enabled


def test_keys_that_are_not_set_are_random_and_told() -> None:
    with capture_logs() as logs:
        first, second = load_auth_settings({}), load_auth_settings({})
    assert first.session_key.reveal() != second.session_key.reveal()
    assert {entry.get("set") for entry in logs} >= {"ADMIN_ACCOUNT_TOKEN_SIGNING_KEY", "MAGOS_SESSION_SIGNING_KEY"}
    assert not first.admin.enabled
    assert first.oidc is None


def test_no_repr_shows_a_secret() -> None:
    text = repr(settings())
    for secret in (ENVIRON["ADMIN_ACCOUNT_TOKEN_SIGNING_KEY"], ENVIRON["MAGOS_SESSION_SIGNING_KEY"], HASH):
        assert secret not in text


def test_plain_http_to_an_issuer_only_on_this_machine() -> None:
    local = settings(MAGOS_BASE_URL="http://127.0.0.1:8080", OIDC_ISSUER_URL="http://127.0.0.1:5556/dex")
    assert local.insecure_issuer
    assert not local.secure
    with pytest.raises(ConfigurationError, match="OIDC_ISSUER_URL"):
        settings(OIDC_ISSUER_URL="http://127.0.0.1:5556/dex")
