"""Which values are secret: whole ones always, parts of structured ones unless they are plain words."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magos.masking.redact import redact, redact_echo
from magos.masking.secretforms import secret_forms, token_values

ACCOUNT = {
    "type": "service_account",
    "project_id": "prod-4711",
    "private_key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----\n",
    "client_email": "deploy@prod-4711.iam.gserviceaccount.com",
    "universe_domain": "googleapis.com",
    "user": "user",
    "password": "letmein",
}


@pytest.mark.parametrize(
    "value",
    [
        json.dumps(ACCOUNT),
        json.dumps(ACCOUNT, indent=2),
        '{ type = "service_account", user = "user", universe_domain = "googleapis.com", password = "letmein" }',
    ],
    ids=["JSON", "indented", "expression"],
)
def test_plain_words_in_a_structured_secret_do_not_mask_advice(value: str) -> None:
    forms = secret_forms([value])
    advice = "enable iam.googleapis.com for the service_account; check user name and access"
    assert redact(advice, forms) == advice
    assert "letmein" not in redact("refused: letmein", forms)


def test_all_else_of_a_structured_secret_is_masked() -> None:
    forms = secret_forms([json.dumps(ACCOUNT)])
    for shown in ("prod-4711", "MIIEvQIBADANBgkqhkiG9w0BAQEF", ACCOUNT["client_email"]):
        assert redact(f"x {shown} x", forms) == "x *** x"


@given(st.text(min_size=4).filter(lambda text: len(text.strip()) >= 4))
@example("user")
@example("true")
@example("service_account")
def test_a_whole_value_is_masked_whatever_it_looks_like(value: str) -> None:
    assert "\0" + value + "\0" != redact(f"\0{value}\0", secret_forms([value]))
    for line in value.splitlines():
        if len(line.strip()) >= 4:
            assert line.strip() not in redact(f"\0{line.strip()}\0", secret_forms([value])).replace("*", "")


names = st.sampled_from(
    ["user", "type", "region", "password", "api_token", "clientSecret", "private_key", "credentials"]
)
plain = st.from_regex(r"[a-z]{2,8}([._-][a-z]{2,8})?", fullmatch=True).filter(lambda text: len(text) >= 4)
opaque = st.from_regex(r"[a-z]{3,8}[0-9]{3,8}[A-Za-z]{0,8}", fullmatch=True)


@given(names, plain | opaque)
def test_a_member_is_readable_only_if_neither_its_name_nor_its_value_says_secret(name: str, value: str) -> None:
    readable = name in {"user", "type", "region"} and value.replace(".", "").replace("_", "").replace("-", "").isalpha()
    for structured in (json.dumps({name: value}), json.dumps({"a": [{name: value}]}), f'{{ {name} = "{value}" }}'):
        shown = redact(f"<{value}>", secret_forms([structured]))
        assert shown == (f"<{value}>" if readable else "<***>")


def test_an_element_without_a_name_and_one_below_a_secret_name_are_masked() -> None:
    forms = secret_forms(['["letmein"]', '{"words": ["friend"]}', '{"password": {"value": "opensesame"}}'])
    assert redact("letmein friend opensesame", forms) == "*** *** ***"


TOKEN = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=")
    for part in (b'{"alg":"RS256","kid":"k"}', b'{"sub":"system:serviceaccount:ns:magos-job"}', b"\x01signature" * 8)
)


def test_a_token_is_masked_as_a_whole_and_its_claims_and_signature_alone() -> None:
    header, claims, signature = TOKEN.split(".")
    forms = secret_forms(token_values(TOKEN))
    assert redact(f"{TOKEN} {claims} {signature} {header}", forms) == f"*** *** *** {header}"
    assert redact(base64.b64encode(TOKEN.encode()).decode(), forms).strip("=") in {"***", "***="}


PASSWORD = "tr0ub4dor&3-tr0ub4dor&3"
HEADER = "Basic " + base64.b64encode(f"robot:{PASSWORD}".encode()).decode()


@pytest.mark.parametrize(
    "shown", [PASSWORD, HEADER, quote(PASSWORD, safe=""), base64.b64encode(PASSWORD.encode()).decode()]
)
@pytest.mark.parametrize("width", [1000, 20, 7])
@pytest.mark.parametrize("line_end", ["\n", " ", "\r\n  ", "\\n"])
def test_an_echo_is_masked_however_it_is_broken_into_lines(shown: str, width: int, line_end: str) -> None:
    forms = secret_forms([PASSWORD, f"robot:{PASSWORD}"])
    echoed = line_end.join(shown[at : at + width] for at in range(0, len(shown), width))
    masked = redact_echo(f"the server said: {echoed} is not welcome", forms)
    assert masked.startswith("the server said")
    assert masked.endswith(" is not welcome")
    assert "tr0u" not in masked
    assert base64.b64encode(PASSWORD.encode()).decode()[:8] not in masked


@given(st.integers(0, 6), st.integers(16, 23))
def test_sixteen_bytes_of_a_secret_are_masked_in_an_echo_that_was_cut(start: int, length: int) -> None:
    piece = PASSWORD[start : start + length]
    masked = redact_echo(f"ref {piece}", secret_forms([PASSWORD]))
    assert masked == ("ref ***" if len(piece) >= 16 else masked)


@given(st.text(max_size=200))
def test_an_echo_without_a_secret_is_untouched(text: str) -> None:
    assert redact_echo(text, secret_forms(["zzzz-not-in-there-zzzz"])) == text.encode("utf-8", "replace").decode()
