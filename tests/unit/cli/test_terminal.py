"""No character of others' reaches a terminal that obeys it, and there is one door."""

import ast
import io
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import magos
from magos.api.phases import Phase
from magos.cli.main import main
from magos.cli.tree import project_tree
from magos.local.programs.progress import LineProgress
from magos.terminal import echo, one_line, shown
from tests.unit.cli.objects import workspace

_BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
_HOSTILE = "a\x1b[2J\x1b]0;owned\x07\x9b31mb\r\x08\x7f\u202ec\u2028d\ud800"


@given(st.text(st.characters(codec=None)))
@example(_HOSTILE)
@example(_BIDI)
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    for door, allowed in ((shown, "\n\t"), (one_line, "")):
        passed = door(text)
        left = {unicodedata.category(each) for each in passed if each not in allowed}
        assert not left & {"Cc", "Cf", "Cs", "Zl", "Zp"}
        assert not set(passed) & set(_BIDI + "\u2028\u2029\x85\x9b")
        passed.encode()
    assert len(shown(text).split("\n")) == text.count("\n") + 1
    assert "\n" not in one_line(text)


@given(st.text(st.characters(exclude_categories=("C", "Z"))))
def test_words_of_any_script_stay_as_they_are(text: str) -> None:
    assert shown(text) == one_line(text) == text


def test_what_is_shown_in_its_place_can_be_read() -> None:
    assert shown("a\x1b[31m\u202eb\x9b\n") == "a\\x1b[31m\\u202eb\\x9b\n"
    assert one_line("a\nb\tc") == "a\\nb\\tc"


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
@example("x\n└─ ✔ Workspace prod", _HOSTILE)
def test_a_tree_has_as_many_lines_as_objects_and_messages_whatever_they_say(name: str, text: str) -> None:
    tree = project_tree(name, None, [workspace(name, Phase.FAILED, message=text)])
    assert len(tree.split("\n")) == (3 if text else 2)
    assert shown(tree) == tree


@pytest.mark.parametrize("live", [False, True])
def test_progress_shows_what_tools_say_escaped_and_its_own_line_control_alone(live: bool) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: live  # type: ignore[method-assign]
    progress = LineProgress(stream)
    progress.say(_HOSTILE)
    progress.tick(_HOSTILE)
    written = stream.getvalue().replace("\r\x1b[2K", "") if live else stream.getvalue()
    assert shown(written) == written


def test_an_error_that_quotes_a_server_passes_the_door(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from magos.errors import MagosError

    def refuse(*_: object) -> None:
        raise MagosError(f"the server said {_HOSTILE}")

    monkeypatch.setattr("magos.cli.session.Session.on_cluster", refuse)
    with pytest.raises(SystemExit):
        main(["tree", "shop"])
    said = capsys.readouterr().err
    assert "\\x1b[2J" in said
    assert shown(said) == said


def test_output_goes_where_it_belongs(capsys: pytest.CaptureFixture[str]) -> None:
    echo("to out \x1b")
    echo("to err \x1b", error=True)
    assert capsys.readouterr() == ("to out \\x1b\n", "to err \\x1b\n")


def test_there_is_one_door() -> None:
    """Whatever else prints in these packages would be a second one; a sandbox writes to the log of its container."""
    root = Path(magos.__file__).parent
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for folder in ("cli", "local", "apps")
        for path in sorted((root / folder).rglob("*.py"))
        if path.name not in ("sandbox.py", "progress.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write")
    ]
    assert found == []
