"""What a label selector text selects, as far as a process has to know it itself: is this object shown to an informer?

The grammar is that of Kubernetes' selector texts: ``key``, ``!key``, ``=``, ``==``, ``!=``, ``in``, ``notin``, joined
by commas. The API server judges texts; a part that is not understood here counts as met, so that the wait for an
object is rather too long than left out.
"""

import re
from collections.abc import Callable, Mapping

_PARTS = re.compile(r",(?![^(]*\))")
_EQUALITY = re.compile(r"([^\s=!,()]+)\s*(!?=|==)\s*([^\s=!,()]*)")
_SET = re.compile(r"([^\s=!,()]+)\s+(in|notin)\s*\(([^()]*)\)")
_PRESENCE = re.compile(r"(!?)\s*([^\s=!,()]+)")


class Selection:
    """One selector text; the empty one selects everything."""

    def __init__(self, text: str) -> None:
        self._requirements = tuple(_requirement(part.strip()) for part in _PARTS.split(text) if part.strip())

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an object with these labels is selected."""
        return all(met(labels) for met in self._requirements)


def _requirement(text: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.fullmatch(text):
        key, values = found[1], {value.strip() for value in found[3].split(",")}
        if found[2] == "in":
            return lambda labels: key in labels and labels[key] in values
        return lambda labels: key not in labels or labels[key] not in values
    if found := _EQUALITY.fullmatch(text):
        key, value = found[1], found[3]
        if found[2] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _PRESENCE.fullmatch(text):
        key, wanted = found[2], not found[1]
        return lambda labels: (key in labels) is wanted
    return lambda _labels: True
