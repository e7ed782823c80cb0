"""Label and field selectors, parsed as the API server does."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.sim.apiserver.problems import bad_request
from tests.sim.apiserver.resources import Json

__all__ = ["Matcher", "field_matcher", "label_matcher", "matcher"]

Matcher = Callable[[Json], bool]

_SET = re.compile(r"(?P<key>\S+)\s+(?P<op>in|notin)\s+\((?P<values>[^)]*)\)")
_EQUALITY = re.compile(r"(?P<key>[^\s=!]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s=!]*)")
_EXISTS = re.compile(r"(?P<no>!?)\s*(?P<key>[^\s=!(),]+)")


def matcher(labels: str, fields: str) -> Matcher:
    """Return the test for both selectors; an empty selector matches everything."""
    by_label, by_field = label_matcher(labels), field_matcher(fields)
    return lambda item: by_label(item["metadata"].get("labels") or {}) and by_field(item)


def label_matcher(text: str) -> Callable[[Mapping[str, str]], bool]:
    """Parse a label selector; raise a 400 problem if it is malformed."""
    tests = [_requirement(part.strip()) for part in _parts(text)]
    return lambda labels: all(test(labels) for test in tests)


def _parts(text: str) -> list[str]:
    return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _requirement(text: str) -> Callable[[Mapping[str, str]], bool]:
    if found := _SET.fullmatch(text):
        key, wanted = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["op"] == "in":
            return lambda labels: labels.get(key) in wanted
        return lambda labels: labels.get(key) not in wanted
    if found := _EQUALITY.fullmatch(text):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.fullmatch(text):
        key, absent = found["key"], bool(found["no"])
        return lambda labels: (key in labels) is not absent
    raise bad_request(f"unable to parse requirement: {text}")


def field_matcher(text: str) -> Matcher:
    """Parse a field selector of ``path=value`` and ``path!=value`` terms over scalar fields."""
    terms: list[tuple[str, str, bool]] = []
    for part in _parts(text):
        found = _EQUALITY.fullmatch(part.strip())
        if not found:
            raise bad_request(f"invalid field selector: {part}")
        terms.append((found["key"], found["value"], found["op"] != "!="))
    return lambda item: all((_field(item, path) == value) is equal for path, value, equal in terms)


def _field(item: Json, path: str) -> str:
    value: Any = item
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "" if value is None else str(value)
