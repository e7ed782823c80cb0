"""Messages that know which of their words are ours.

A text that is shown to people is masked once, where it leaves the process. Secret values may be ordinary words (a
user name ``user``), so what we say ourselves must not be masked with what others say. A :class:`Message` keeps the two
apart: :func:`compose` takes a template, which is ours, and fields, which are not. A text that is no ``Message``,
because it was put together in any other way, counts as others' words as a whole.
"""

from collections.abc import Callable, Iterable
from string import Formatter
from typing import Final, LiteralString, NamedTuple, Self

_ELLIPSIS: Final = "…"
_formatter: Final = Formatter()


class Part(NamedTuple):
    """Some words of a message; ``own`` if they stand in our source."""

    text: str
    own: bool


class Message(str):
    """A text made by :func:`compose`: equal to the plain text, but it knows its parts."""

    __slots__ = ("parts",)

    parts: tuple[Part, ...]

    def __new__(cls, parts: Iterable[Part]) -> Self:
        """Join ``parts``."""
        known = tuple(part for part in parts if part.text)
        message = super().__new__(cls, "".join(part.text for part in known))
        message.parts = known
        return message


def compose(template: LiteralString, /, **fields: object) -> Message:
    """Return ``template`` with ``fields`` in it, as ``str.format`` does; fields that are messages keep their parts."""
    parts: list[Part] = []
    for literal, name, spec, conversion in _formatter.parse(template):
        parts.append(Part(literal, own=True))
        if name is None:
            continue
        value = fields[name]
        if isinstance(value, Message) and not spec and not conversion:
            parts += value.parts
        else:
            shown = format(_formatter.convert_field(value, conversion), spec or "")
            parts.append(Part(shown, own=False))
    return Message(parts)


def cleared(text: str) -> Message:
    """Return ``text``, which has been masked already, as a field that is not masked once more."""
    return Message([Part(text, own=True)])


def masked(text: str, mask: Callable[[str], str]) -> str:
    """Return ``text`` as plain text with ``mask`` applied to every part that is not our own."""
    if not isinstance(text, Message):
        return mask(text)
    return "".join(part.text if part.own else mask(part.text) for part in text.parts)


def shorten(text: str, limit: int) -> str:
    """Return ``text``, cut to ``limit`` characters with a final ellipsis; a message stays one.

    Mask first: a secret that is cut in two is not recognised any more.
    """
    if len(text) <= limit:
        return text
    kept = text[: limit - 1].rstrip()
    if not isinstance(text, Message):
        return kept + _ELLIPSIS
    parts: list[Part] = []
    room = len(kept)
    for part in text.parts:
        parts.append(Part(part.text[:room], part.own))
        room -= len(parts[-1].text)
    return Message([*parts, Part(_ELLIPSIS, own=True)])
