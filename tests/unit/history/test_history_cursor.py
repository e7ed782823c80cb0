"""A cursor leads to exactly one place, and nothing else is taken for one."""

import base64
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.history.cursor import cursor_behind, parse_cursor

PLAIN = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001


@given(PLAIN, TIMES, PLAIN)
def test_a_cursor_gives_back_what_it_was_made_of(uid: str, at: datetime, run_id: str) -> None:
    text = cursor_behind(uid, at, run_id)
    cursor = parse_cursor(text)
    assert (cursor.uid, cursor.ordered_at, cursor.run_id) == (uid, at, run_id)
    assert text.isascii()
    assert not set(text) & set("+/=&?# ")


@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_anything_else_is_a_value_error(text: str) -> None:
    try:
        cursor = parse_cursor(text)
    except ValueError:
        return
    assert cursor_behind(cursor.uid, cursor.ordered_at, cursor.run_id) == text


@pytest.mark.parametrize(
    "inside",
    [
        b'["u",1]',
        b'["u",1,"r",2]',
        b'["u","1","r"]',
        b'["u",1.5,"r"]',
        b'["u",999999999999999999999999,"r"]',
        b'["u",9223372036854775807,"r"]',
        b'["u", 1,"r"]',
        b'["u\\u0000",1,"r"]',
        b'{"uid":"u","microseconds":1,"run_id":"r"}',
        b'["u",1,"r"]' + b" " * 4000,
        b'["u",1,"\xff"]',
    ],
)
def test_what_no_page_gave_is_refused(inside: bytes) -> None:
    with pytest.raises(ValueError, match="is not a cursor"):
        parse_cursor(base64.urlsafe_b64encode(inside).rstrip(b"=").decode())
