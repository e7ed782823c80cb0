"""Finds many byte sequences at once: an Aho-Corasick automaton over how they begin, and a comparison of the rest.

A secret of 100 KB has more than 20,000 forms, some of them longer than itself. Only their first ``HEAD`` bytes are in
the automaton, so that it is small and made quickly. It is made when so much has been searched that it pays: a stage
that says a few lines compares them with each form.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from ahocorasick import Automaton

HEAD: Final = 16
_COMPARISONS: Final = 8
"""Short texts that are compared with every form before the automaton is made, which costs about as much."""
_TEXT: Final = 512
"""Bytes of a text that cost about as much as beginning with the next form."""

_ByLength: TypeAlias = Mapping[int, frozenset[bytes]]


class Begun(NamedTuple):
    """A form that begins at ``start``; ``stop`` is None if the text ends before the form does."""

    start: int
    stop: int | None
    form: bytes


class Matcher:
    """Looks for ``forms``, which must not be empty sequences."""

    def __init__(self, forms: Iterable[bytes]) -> None:
        self.forms = tuple(dict.fromkeys(forms))
        self.longest = max(map(len, self.forms), default=0)
        self._by_head: dict[bytes, _ByLength] = {}
        self._searched = 0.0
        self._automaton: Automaton | None = None

    def begun(self, text: bytes) -> Iterator[Begun]:
        """Yield every form that ``text`` contains, and every one of at least ``HEAD`` bytes that it breaks off in."""
        for start, forms in self._heads(text):
            rest = len(text) - start
            for length, known in forms.items():
                if length > rest:
                    tail = text[start:]
                    for form in known:
                        if form.startswith(tail):
                            yield Begun(start, None, form)
                elif found := _which(text, start, length, known):
                    yield Begun(start, start + length, found)

    def spans(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield where each form in ``text`` starts and stops, overlapping ones too."""
        for start, forms in self._heads(text):
            rest = len(text) - start
            for length, known in forms.items():
                if length <= rest and _which(text, start, length, known):
                    yield start, start + length

    def _heads(self, text: bytes) -> Iterator[tuple[int, _ByLength]]:
        """Yield where heads start, with the forms that begin so."""
        if not self.forms or not text:
            return
        if not self._by_head:
            self._by_head = _by_head(self.forms)
        self._searched += 1 + len(text) / _TEXT
        if self._automaton is None and self._searched <= _COMPARISONS:
            for head, forms in self._by_head.items():
                start = text.find(head)
                while start >= 0:
                    yield start, forms
                    start = text.find(head, start + 1)
            return
        if self._automaton is None:
            self._automaton = _automaton(self._by_head)
        # The library wants text; in Latin-1 every byte is the character of the same number.
        for last, (length, forms) in self._automaton.iter(text.decode("latin-1")):
            yield last + 1 - length, forms


def _which(text: bytes, start: int, length: int, known: frozenset[bytes]) -> bytes:
    """Return the one of ``known``, all of them of ``length``, that stands at ``start``."""
    if len(known) == 1:
        (form,) = known
        return form if text.startswith(form, start) else b""
    found = text[start : start + length]
    return found if found in known else b""


def _by_head(forms: Iterable[bytes]) -> dict[bytes, _ByLength]:
    heads: defaultdict[bytes, defaultdict[int, set[bytes]]] = defaultdict(lambda: defaultdict(set))
    for form in forms:
        heads[form[:HEAD]][len(form)].add(form)
    return {head: {length: frozenset(same) for length, same in lengths.items()} for head, lengths in heads.items()}


def _automaton(heads: Mapping[bytes, _ByLength]) -> "Automaton":
    from ahocorasick import Automaton

    automaton = Automaton()
    for head, forms in heads.items():
        automaton.add_word(head.decode("latin-1"), (len(head), forms))
    automaton.make_automaton()
    return automaton
