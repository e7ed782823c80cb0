"""Log lines become escaped, well-formed HTML, whatever they hold."""

import re
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from magos.ui.ansi import LONGEST, plain, to_html
from tests.pages.htmlshape import shape_of
from tests.pages.states import HOSTILE

_PIECES = st.one_of(
    st.text(max_size=8),
    st.sampled_from(HOSTILE),
    st.builds(lambda codes: f"\x1b[{';'.join(map(str, codes))}m", st.lists(st.integers(0, 260), max_size=6)),
    st.sampled_from(
        ["\x1b[2J", "\x1b]0;title\x07", "\x1b]8;;https://x\x1b\\", "\x1b", "\x9b31m", "\x1bPq\x1b\\", "\x00"]
    ),
)
LINES = st.lists(_PIECES, max_size=12).map("".join)


@given(LINES)
@example("\x1b[31m<b>\x1b[0m")
@example("\x1b[38;5;1;31mx\x1b[38;2;1;2;3mx")
def test_the_html_of_a_line_is_text_and_spans_alone(line: str) -> None:
    shape = shape_of(f"<p>{to_html(line)}</p>")
    assert shape.problems == []
    assert {each.tag for each in shape.elements} <= {"p", "span"}
    for each in shape.elements[1:]:
        assert set(each.attributes) == {"class"}
        assert re.fullmatch(r"a-(b|d|i|u|[fg]\d{1,2})( a-(b|d|i|u|[fg]\d{1,2}))*", each.attributes["class"])


@given(LINES)
def test_no_character_is_left_that_a_terminal_or_a_browser_obeys(line: str) -> None:
    obeyed = [each for each in to_html(line) if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert set(obeyed) <= {"\t"}


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=200))
def test_plain_text_is_shown_as_it_is(line: str) -> None:
    shape = shape_of(f"<p>{to_html(line)}</p>")
    assert shape.elements[0].text == line
    assert plain(line) == line


def test_colours_begin_and_end_as_the_tool_says() -> None:
    assert to_html("\x1b[1m\x1b[31mno\x1b[0m yes") == '<span class="a-b a-f1">no</span> yes'
    assert to_html("\x1b[32mok\x1b[39m \x1b[4mx\x1b[24my") == '<span class="a-f2">ok</span> <span class="a-u">x</span>y'
    assert to_html("\x1b[91;42mx") == '<span class="a-f9 a-g2">x</span>'
    assert to_html("\x1b[38;5;196mx\x1b[48;2;1;2;3my") == "xy"


def test_a_line_of_any_length_takes_bounded_room() -> None:
    assert len(to_html("x" * 10_000_000)) == LONGEST + 1
    assert len(to_html("\x1b[31m<" * 1_000_000)) < 40 * LONGEST
