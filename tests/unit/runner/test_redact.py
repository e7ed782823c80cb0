"""Redaction: no secret survives, cutting the stream differently changes nothing, memory stays bounded."""

import base64
import itertools
import json
from collections.abc import Callable
from unittest.mock import patch
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magos.masking.redact import LONGEST_HELD, Redactor, redact
from magos.masking.secretforms import secret_forms

# No '*': a mask beside the rest of a value could otherwise look like a value.
secrets = st.lists(st.text(alphabet='abcXY/+ %"\n\u00e9=', min_size=4, max_size=12), min_size=1, max_size=4)
noise = st.binary(max_size=30).map(lambda raw: raw.replace(b"*", b"-"))
# Other output, or the form of a secret with this number.
pieces = st.lists(noise | st.integers(0, 999), max_size=8)


def stream(forms: tuple[bytes, ...], chunks: list[bytes], held: int = LONGEST_HELD) -> bytes:
    """What comes out where ``held`` bytes of an unfinished line are held back."""
    redactor = Redactor(forms)
    with patch("magos.masking.redact.LONGEST_HELD", held):
        return b"".join(redactor.feed(chunk) for chunk in chunks) + redactor.finish()


def written(forms: tuple[bytes, ...], what: list[bytes | int]) -> list[bytes]:
    """The chunks of a stream."""
    return [piece if isinstance(piece, bytes) else forms[piece % len(forms)] if forms else b"" for piece in what]


@given(secrets, pieces)
@example(["abcXY"], [b"abcX", b"Y"])
@example(["aaaa"], [b"aaaaaa", b"a"])
@example(["abcX", "XYab"], [b"abcXYab"])
@example(["ab\ncdXY+"], [0, b"\n", 1, 2, 3, 4, 5])
@example(['abc"%'], [b'abc\\"%', b"abc%22%25"])
@example([" \n \n"], [0])
def test_no_form_of_a_secret_survives(values: list[str], what: list[bytes | int]) -> None:
    forms = secret_forms(values)
    output = stream(forms, [b"".join(written(forms, what))])
    assert not [form for form in forms if form in output]


@pytest.mark.parametrize("offset", range(-12, 3))
def test_a_secret_at_the_seam_of_an_overlong_line_is_masked_once(offset: int) -> None:
    secret = b"hunter2-hunter2"
    line = b"x" * (LONGEST_HELD + offset) + secret + b"y" * 10
    redactor = Redactor((secret,))
    output = b"".join(redactor.feed(line[i : i + 1000]) for i in range(0, len(line), 1000)) + redactor.finish()
    assert output == line.replace(secret, b"***")


@given(noise)
def test_text_without_secrets_is_untouched(text: bytes) -> None:
    assert stream(secret_forms(["zzzz-not-in-there-zzzz"]), [text]) == text


def test_overlapping_secrets_leave_nothing_of_either() -> None:
    assert redact("see abcdef!", [b"abcd", b"cdef"]) == "see ***!"


def test_values_under_four_characters_are_left_alone() -> None:
    assert secret_forms(["abc", ""]) == ()


def test_each_line_and_every_encoding_of_a_multi_line_value_is_known() -> None:
    key = "-----BEGIN KEY-----\nc2VjcmV0\n}\n-----END KEY-----\n"
    forms = secret_forms([key])
    for shown in (
        key,
        base64.b64encode(key.encode()).decode(),
        base64.b64encode(key.strip().encode()).decode(),
        quote(key, safe=""),
        json.dumps(key),
        "c2VjcmV0",
    ):
        assert "c2VjcmV0" not in redact(shown, forms)
        assert base64.b64encode(key.encode()).decode()[:20] not in redact(shown, forms)
    assert redact("a } b", forms) == "a } b"


def test_finished_lines_are_passed_on_at_once_and_unfinished_ones_held() -> None:
    redactor = Redactor((b"secret",))
    assert redactor.feed(b"one\ntw") == b"one\n"
    assert redactor.feed(b"o sec") == b""
    assert redactor.feed(b"ret\n") == b"two ***\n"


def test_an_endless_line_is_held_only_up_to_the_limit() -> None:
    redactor = Redactor((b"secret",))
    passed = sum(len(redactor.feed(b"\xff" * 8192)) for _ in range(100))
    assert 100 * 8192 - passed <= LONGEST_HELD + 8192


@pytest.mark.parametrize("before", ["", "u:", "x", "four"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_inside_a_longer_encoded_value_is_masked(before: str, encode: Callable[[bytes], bytes]) -> None:
    secret = "hunter2/hunter2+hunter2"
    shown = redact(encode(f"{before}{secret}, and more".encode()).decode(), secret_forms([secret]))
    assert "***" in shown
    remaining = shown.split("***")[0]
    decoded = base64.b64decode(remaining[: len(remaining) // 4 * 4])
    assert b"hunter" not in decoded


@pytest.mark.parametrize("width", [64, 76])
@pytest.mark.parametrize("end", ["", "\n"])
def test_an_encoded_secret_broken_into_lines_is_masked_line_by_line(width: int, end: str) -> None:
    secret = "".join(f"{number:04}/" for number in range(60))
    encoded = base64.b64encode(f"{secret}{end}".encode()).decode()
    lines = [encoded[start : start + width] for start in range(0, len(encoded), width)]
    shown = redact("\n".join(lines) + "\n", secret_forms([secret + end])).splitlines()
    assert [line for line in shown if len(line.replace("***", "")) > 4] == []


# However long the line that is held back may be: then as now, and at once.
HELD = st.sampled_from([0, 1, 5, 20, LONGEST_HELD])


@given(secrets, pieces, st.lists(st.integers(0, 500), max_size=6), HELD)
@example(["abcXY"], [b"abcXY"], [4], LONGEST_HELD)
@example(["abcXY"], [b"abcXYabcXY"], [8], LONGEST_HELD)
@example(["abcXY"], [0], [6], 0)  # all of the longest form but its last byte
@example(["abcXY"], [b"abc\n", b"XY"], [3, 4], LONGEST_HELD)
@example(["aaaa"], [b"aaaaaaa"], [6], LONGEST_HELD)
@example(["abcXY", "XYabc"], [b"abcXYabc"], [2, 4, 6], 0)
@example(["abcXY"], [b"----abcXY----"], [5, 6, 7, 8], 0)
@example(["abcX", "abcXabcXabcX"], [b"abcXabcXabc", b"--"], [4, 8], 0)
@example(["aaaa"], [b"aaaaaaaaaaaa\naaaa"], [1, 2, 3, 4, 5, 6], 1)
def test_however_it_is_cut_a_stream_is_masked_as_the_whole_text_is(
    values: list[str], what: list[bytes | int], at: list[int], held: int
) -> None:
    """Against the simplest thing that can be right: mark every covered byte, replace every marked run."""
    forms = secret_forms(values)
    text = b"".join(written(forms, what))
    cuts = sorted(min(cut, len(text)) for cut in at)
    chunks = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert stream(forms, chunks, held) == marked(forms, text)


def marked(forms: tuple[bytes, ...], text: bytes) -> bytes:
    covered = bytearray(len(text))
    for form in forms:
        for start in range(len(text) - len(form) + 1):
            if text[start : start + len(form)] == form:
                covered[start : start + len(form)] = b"\1" * len(form)
    runs = itertools.groupby(range(len(text)), key=lambda position: covered[position])
    return b"".join(b"***" if hidden else bytes(text[at] for at in run) for hidden, run in runs)


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("pass<word>&more", '"pass\\u003cword\\u003e\\u0026more"'),
        ("a${var.b}%{if}", '"a$${var.b}%%{if}"'),
        ('quo"ted\\back', '"quo\\"ted\\\\back"'),
    ],
    ids=["jsonencode", "template", "quoted"],
)
def test_a_secret_as_the_tools_write_it_is_masked(secret: str, shown: str) -> None:
    assert redact(f"x = {shown}", secret_forms([secret])) == 'x = "***"'


@pytest.mark.parametrize(
    "value",
    [
        '{"user": "u", "nested": [{"password": "hunter2\\nhunter3"}], "port": 543212}',
        '{ user = "u", "nested" = [{ password = "hunter2\\nhunter3" }], "port": "543212" }',
    ],
    ids=["JSON", "expression"],
)
def test_each_part_of_a_structured_secret_is_masked_and_its_keys_are_not(value: str) -> None:
    shown = redact('nested password port user hunter2 "hunter2\\nhunter3" hunter3 543212 true', secret_forms([value]))
    assert shown == 'nested password port user *** "***" *** *** true'


@given(st.recursive(st.text() | st.integers() | st.booleans() | st.none(), st.lists, max_leaves=5), st.text())
def test_any_value_has_forms(value: object, text: str) -> None:
    assert all(secret_forms([json.dumps(value), text, "[" + text, "{" + text]))
