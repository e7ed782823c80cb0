"""Messages: our own words are never masked, everybody else's always."""

from hypothesis import given
from hypothesis import strategies as st

from magos.masking.message import Message, cleared, compose, masked, shorten


def hide(text: str) -> str:
    return text.replace("user", "***")


def test_our_own_words_stay_and_those_of_others_are_masked() -> None:
    message = compose("check user name and password of {name}", name="user-secret")
    assert message == "check user name and password of user-secret"
    assert masked(message, hide) == "check user name and password of ***-secret"


def test_a_text_that_was_not_composed_is_masked_as_a_whole() -> None:
    message = compose("the user {name}", name="x")
    assert masked(f"{message}!", hide) == "the *** x!"


def test_a_message_within_a_message_keeps_its_own_words() -> None:
    inner = compose("user {name}", name="user")
    assert masked(compose("failed: {inner}; {text!r}", inner=inner, text="a user"), hide) == "failed: user ***; 'a ***'"


def test_what_was_masked_before_is_not_masked_again() -> None:
    assert masked(compose("{text}", text=cleared("user")), hide) == "user"


fields = st.text(alphabet="us er{}*", max_size=12)


@given(fields, fields, st.integers(1, 40))
def test_a_shortened_message_is_the_shortened_text_and_keeps_its_parts(one: str, two: str, limit: int) -> None:
    message = compose("user {one} and {two} user", one=one, two=two)
    cut = shorten(message, limit)
    assert cut == shorten(str(message), limit)
    assert len(cut) <= limit
    assert isinstance(cut, Message)
    assert "".join(part.text for part in cut.parts) == cut
    assert masked(cut, lambda _: "").startswith("user "[: limit - 1].rstrip())
