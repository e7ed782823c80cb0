"""Secrets whose white space a formatter changed: none survives, nothing else is masked, chunks make no difference."""

import itertools
import re
import textwrap
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from magos.masking.redact import LONGEST_HELD, Redactor, redact
from magos.masking.secretforms import secret_forms
from magos.masking.wrapped import LONGEST_GAP, unwrapped

DSN = "host=db.internal port=5432 user=app password=hunter2-hunter2 sslmode=require connect_timeout=10"

# A naive reading of the rule, on the whole text at once: what separates two words, as one regular expression.
_BLANK = r"[ \t\r\v\f]"
_NAME = r"(?:(?=[^\n]{0,320}\((?:local|remote)-exec\): )[^\n]*?\((?:local|remote)-exec\): )?"
_LEAD = rf"{_NAME}(?:{_BLANK}|│|╵|╷|\x1b\[[0-9;]{{0,16}}m)*"
_GAP = re.compile(rf"(?:{_BLANK}*\n{_LEAD})+{_BLANK}*|{_BLANK}+".encode())


def oracle(forms: tuple[bytes, ...], text: bytes) -> bytes:
    """Mark every byte that a form covers, as it is or as it reads with single blanks; replace every marked run."""
    covered = bytearray(len(text))
    for form in forms:
        for start in range(len(text) - len(form) + 1):
            if text.startswith(form, start):
                covered[start : start + len(form)] = b"\1" * len(form)
    words, places, position = bytearray(), list[int](), 0
    begun = b"\n" + text  # a text begins as a line does
    for gap in _GAP.finditer(begun):
        words += begun[position : gap.start()]
        places += range(position - 1, gap.start() - 1)
        words += b" " if gap.end() - gap.start() <= LONGEST_GAP else b"\n"
        places.append(gap.start() - 1)
        position = gap.end()
    words += begun[position:]
    places += range(position - 1, len(text))
    for form in filter(None, map(unwrapped, forms)):
        for start in range(len(words) - len(form) + 1):
            if words.startswith(form, start):
                begin, end = places[start], places[start + len(form) - 1] + 1
                covered[begin:end] = b"\1" * (end - begin)
    runs = itertools.groupby(range(len(text)), key=lambda at: covered[at])
    return b"".join(b"***" if hidden else bytes(text[at] for at in run) for hidden, run in runs)


def stream(forms: tuple[bytes, ...], chunks: list[bytes], held: int = LONGEST_HELD) -> bytes:
    redactor = Redactor(forms)
    with patch("magos.masking.redact.LONGEST_HELD", held):
        return b"".join(redactor.feed(chunk) for chunk in chunks) + redactor.finish()


WORDS = st.sampled_from(["ab", "abc", "b", "ab=cd", "x", "│", "é"])
secrets = st.lists(st.lists(WORDS, min_size=1, max_size=5).map(" ".join), min_size=1, max_size=3)
GAPS = st.sampled_from(
    [" ", "  ", "\n", "\n\n", " \n  ", "\r\n│ ", "\n\x1b[31m│\x1b[0m ", "\t", "\na.b (local-exec): ", ""]
)
texts = st.lists(st.tuples(WORDS | secrets.map(lambda several: several[0]), GAPS), max_size=12).map(
    lambda pairs: "".join(word + gap for word, gap in pairs).encode()
)


@given(secrets, texts, st.lists(st.integers(0, 200), max_size=6), st.sampled_from([0, 1, 5, 20, LONGEST_HELD]))
@example(["ab abc"], b"ab\n\xe2\x94\x82 abc", [3, 4, 5, 6], LONGEST_HELD)
@example(["ab abc"], b"ab\n\xe2\x94\x82 abc", [3, 4, 5, 6], 0)
@example(["ab ab ab"], b"ab\nab\nab\nab\n", [3, 6], LONGEST_HELD)
@example(["ab abc ab"], b"ab\nabc\nx", [], LONGEST_HELD)
@example(["b ab"], b"ab ab\n", [2], 0)
@example(["ab abc"], b"ab\n\n\na.b (local-exec): \xe2\x94\x82\nabc", [5], LONGEST_HELD)
def test_a_stream_is_masked_as_the_naive_reading_of_the_rule_says(
    values: list[str], text: bytes, at: list[int], held: int
) -> None:
    forms = secret_forms(values)
    cuts = sorted(min(cut, len(text)) for cut in at)
    chunks = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert stream(forms, chunks, held) == oracle(forms, text)


def diagnostic(message: str, gutter: str) -> str:
    lines = ["Error: Invalid value", "", "  on main.tf line 3:", *textwrap.wrap(message, 76, break_long_words=False)]
    framed = [f"{gutter}{line}".rstrip() for line in lines]
    return "\n".join(["╷", *framed, "╵", ""] if gutter else ["", *framed, ""])


@pytest.mark.parametrize("gutter", ["", "│ ", "\x1b[31m│\x1b[0m \x1b[0m"])
@pytest.mark.parametrize("indentation", ["", "    ", "terraform_data.a (local-exec): "])
@pytest.mark.parametrize("before", range(0, 76, 5))
def test_a_secret_with_blanks_is_masked_wherever_the_tool_wraps_it(gutter: str, indentation: str, before: int) -> None:
    shown = textwrap.indent(diagnostic("x" * before + f" cannot use {DSN} here", gutter), indentation, lambda _: True)
    masked = stream(secret_forms([DSN]), [shown.encode()]).decode()
    assert not [word for word in DSN.split() if word in masked]
    assert "cannot use" in " ".join(masked.split())
    assert "here" in masked


def test_a_finished_line_waits_only_for_a_secret_that_may_go_on() -> None:
    redactor = Redactor(secret_forms([DSN]))
    assert redactor.feed(b"nothing of it\n") == b"nothing of it\n"
    assert redactor.feed(b"Error: host=db.internal port=5432\n") == b"Error: "
    assert redactor.feed(b"user=somebody\n") == b"host=db.internal port=5432\nuser=somebody\n"


def test_the_beginning_of_a_secret_at_the_end_of_the_output_appears() -> None:
    redactor = Redactor(secret_forms([DSN]))
    assert redactor.feed(b"host=db.internal\n") == b""
    assert redactor.finish() == b"host=db.internal\n"


def test_a_gap_longer_than_any_formatter_makes_ends_a_secret_and_what_is_held() -> None:
    redactor = Redactor(secret_forms(["one two"]))
    passed = redactor.feed(b"one\n" + b"\n" * LONGEST_GAP)
    passed += redactor.feed(b"two\n")
    assert passed == b"one\n" + b"\n" * LONGEST_GAP + b"two\n"


def test_the_lines_of_a_secret_are_masked_as_one_where_all_are_shown() -> None:
    value = "ab\ncd\nef\n"
    assert redact("see ab cd ef there", secret_forms([value])) == "see *** there"
    assert redact("see ab there", secret_forms([value])) == "see ab there"


def test_forms_that_come_in_the_middle_of_a_stream_are_masked_in_what_is_held() -> None:
    redactor = Redactor(secret_forms(["hunter2"]))
    passed = redactor.feed(b"hunter2 tok")
    redactor.use(redactor._forms.and_also(secret_forms(["token-0123"])))
    assert passed + redactor.feed(b"en-0123 hunter2\n") == b"*** *** ***\n"


def test_finished_lines_that_are_held_are_searched_for_forms_that_come_then() -> None:
    redactor = Redactor(secret_forms([DSN]))
    assert redactor.feed(b"host=db.internal\n") == b""  # the secret may go on
    redactor.use(redactor._forms.and_also(secret_forms(["db.internal"])))
    assert redactor.feed(b"nothing\n") == b"host=***\nnothing\n"


def test_a_secret_of_many_lines_costs_little_where_it_is_not_shown() -> None:
    """Comparing a text with every form would take a time that grows with the secret: the automaton is made once."""
    value = "\n".join(f"{number:06}-secret-{number * 7919:09}" for number in range(2000))
    redactor = Redactor(secret_forms([value]))
    for number in range(100):
        assert redactor.feed(f"line {number}\n".encode()) == f"line {number}\n".encode()
    assert redactor._forms.exact._automaton is not None
