"""Where in a log its errors stand: a narrow drawing beside the lines, whose marks lead to them."""

from collections.abc import Callable, Sequence

from markupsafe import Markup

MARKS = 60
"""Marks of a drawing at most; errors that are close to each other share one."""
_KEPT = 240
_WIDTH, _HEIGHT = 14, 480


class ErrorLines:
    """Collects the numbers of error lines of a log of any length, in bounded memory.

    While there are few, all are kept; else those that are closest behind another one are given up, over the whole log.
    """

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._step = 1

    def add(self, number: int) -> None:
        """Add the number of a line; numbers come in rising order."""
        if self._numbers and number - self._numbers[-1] < self._step:
            return
        self._numbers.append(number)
        while len(self._numbers) > _KEPT:
            self._step *= 2
            thinned = self._numbers[:1]
            for each in self._numbers[1:]:
                if each - thinned[-1] >= self._step:
                    thinned.append(each)
            self._numbers = thinned

    def marks(self, total: int) -> tuple[int, ...]:
        """Return the first error of each part of a log of ``total`` lines that has one."""
        parts: dict[int, int] = {}
        for number in self._numbers:
            parts.setdefault(_part(number, total), number)
        return tuple(parts.values())


def minimap(marks: Sequence[int], window: tuple[int, int], total: int, link: Callable[[int], str]) -> Markup:
    """Return the drawing of a log of ``total`` lines, with the lines ``window`` that are shown; empty without marks."""
    if not marks:
        return Markup("")
    first, last = window
    top = _y(first, total)
    drawn = [
        Markup('<rect class="here" x="0" y="{}" width="{}" height="{}"></rect>').format(
            top, _WIDTH, max(4, _y(last + 1, total) - top)
        )
    ]
    drawn += [
        Markup(
            '<a href="{}" aria-label="Error in line {}"><title>Error in line {}</title>'
            '<rect class="mark" x="0" y="{}" width="{}" height="6" rx="1"></rect></a>'
        ).format(link(number), number, number, _part(number, total) * (_HEIGHT // MARKS) + 1, _WIDTH)
        for number in marks
    ]
    return Markup(
        '<svg class="minimap" role="group" aria-label="Errors of the log" width="{}" height="{}"'
        ' viewBox="0 0 {} {}">{}</svg>'
    ).format(_WIDTH, _HEIGHT, _WIDTH, _HEIGHT, Markup("").join(drawn))


def _part(number: int, total: int) -> int:
    return min(MARKS - 1, (number - 1) * MARKS // max(total, 1))


def _y(number: int, total: int) -> int:
    return (number - 1) * _HEIGHT // max(total, 1)
