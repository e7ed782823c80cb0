"""Which files of the repository set an input variable that a VariableSet sets, too: the file wins (spec §6.6).

The tools read VariableSets as environment and every file over it. Only the names of variables are looked at; a file
that cannot be read as one of variables is the tool's to complain about.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

_FIXED: Final = ("terraform.tfvars", "terraform.tfvars.json")
_AUTO: Final = (".auto.tfvars", ".auto.tfvars.json")
_NAME: Final = re.compile(r'(?:([^\W\d][\w-]*)|"([^"\\$%]*)")[ \t]*=(?!=)')
_COMMENT: Final = re.compile(r"(?:#|//)[^\n]*|/\*.*?\*/", re.DOTALL)
_HEREDOC: Final = re.compile(r"<<(-?)([^\W\d][\w-]*)[^\n]*\n")
_OPENING, _CLOSING = "{[(", "}])"


def read_by_itself(names: Iterable[str]) -> list[str]:
    """Return those of the files ``names`` of a module that the tools read unasked, each overriding the ones before."""
    present = frozenset(names)
    return [each for each in _FIXED if each in present] + sorted(each for each in present if each.endswith(_AUTO))


def overriding(files: Iterable[tuple[str, bytes]], variables: Iterable[str]) -> Mapping[str, str]:
    """Return, for those of ``variables`` that any of ``files`` sets, the name of the file that wins: the last one."""
    wanted = frozenset(variables)
    return {variable: name for name, content in files for variable in sorted(variables_set(name, content) & wanted)}


def variables_set(name: str, content: bytes) -> frozenset[str]:
    """Return the names of the variables that the file ``name`` with ``content`` sets."""
    try:
        if name.endswith(".json"):
            return frozenset(msgspec.json.decode(content, type=dict[str, msgspec.Raw]))
        return frozenset(_assigned(content.decode()))
    except ValueError:
        return frozenset()


def _assigned(text: str) -> Iterator[str]:
    """Yield the names that ``text`` assigns outside of brackets, strings and comments."""
    position, depth, fresh = 0, 0, True  # fresh: nothing but blanks and comments since the line began
    while position < len(text):
        if found := _COMMENT.match(text, position):
            position = found.end()
        elif depth == 0 and fresh and (found := _NAME.match(text, position)):
            yield found[1] or found[2]
            position, fresh = found.end(), False
        elif found := _HEREDOC.match(text, position):
            position = _after_heredoc(text, found)
            fresh = depth == 0
        elif text[position] == '"':
            position, fresh = _after_string(text, position + 1), False
        else:
            character = text[position]
            depth = max(0, depth + (character in _OPENING) - (character in _CLOSING))
            fresh = character == "\n" or (fresh and character.isspace())
            position += 1


def _after_heredoc(text: str, begin: re.Match[str]) -> int:
    end = re.compile(rf"^[ \t]*{re.escape(begin[2])}[ \t]*\r?$\n?", re.MULTILINE).search(text, begin.end())
    return end.end() if end else len(text)


def _after_string(text: str, position: int) -> int:
    """Return the position behind a string whose content begins at ``position``; templates in it may hold strings."""
    depth = 0
    while position < len(text):
        if depth == 0 and text[position] == "\\":
            position += 2
        elif depth == 0 and text.startswith(("$${", "%%{"), position):
            position += 3
        elif text.startswith(("${", "%{"), position):
            depth, position = depth + 1, position + 2
        elif depth and text[position] == '"':
            position = _after_string(text, position + 1)
        elif text[position] == '"':
            return position + 1
        else:
            depth += (text[position] == "{") - (text[position] == "}") if depth else 0
            position += 1
    return position
