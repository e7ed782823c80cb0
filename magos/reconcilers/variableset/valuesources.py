"""Secrets and ConfigMaps as sources of values: which a set refers to, and what may be known about them.

What leaves the reader of a source is here and nothing else: versions, which keys are there, the size of their values,
and keyed digests that mean nothing outside the process that made them. Never a value.
"""

from collections.abc import Mapping

from msgspec import Struct

from magos.api.variableset import SourceKind, ValueSourceKey, VariableSetSpec, reference_of
from magos.runtime.decision import Query


class ValueSourceContent(Query, frozen=True):
    """What is known about ``keys`` of one source, read past every cache. Value: ``ValueSourceReport``."""

    namespace: str
    kind: SourceKind
    name: str
    keys: tuple[str, ...]


class Content(Struct, frozen=True, kw_only=True):
    """A value without the value: a keyed digest, the size in bytes, and whether it is text (UTF-8 without NUL)."""

    digest: bytes
    size: int
    text: bool = True


class ValueSourceReport(Struct, frozen=True, kw_only=True):
    """One source as it was read. ``contents`` has an entry for each key asked for, None where the key is missing.

    ``resource_version`` is empty if there is no such object, or if it may not be read (``forbidden``).
    """

    resource_version: str = ""
    forbidden: bool = False
    contents: Mapping[str, Content | None]

    @property
    def found(self) -> bool:
        """True if the object exists and could be read."""
        return self.resource_version != ""


class CachedContent(Struct, frozen=True, kw_only=True):
    """What a process keeps of a source between passes: the last report, the content last seen and its version.

    ``known`` outlives an absence of the object, so that one that comes back as it was has not changed.
    """

    report: ValueSourceReport
    known: Mapping[str, bytes | None]
    content_version: str


ContentCache = Mapping[ValueSourceKey, CachedContent]


def wanted_keys(spec: VariableSetSpec) -> Mapping[ValueSourceKey, tuple[str, ...]]:
    """Return the sources a set refers to, in the order in which it first does, each with its keys, sorted."""
    wanted: dict[ValueSourceKey, set[str]] = {}
    for variable in spec.variables:
        found = reference_of(variable.value_from)
        if found is not None:
            source, reference = found
            wanted.setdefault(source, set()).add(reference.key)
    return {source: tuple(sorted(keys)) for source, keys in wanted.items()}


def recognise(report: ValueSourceReport, before: CachedContent | None, version_after_restart: str) -> CachedContent:
    """Return what to remember after ``report``; ``content_version`` moves only with the content.

    A key that is not remembered counts as changed. With no content remembered at all (a new process) the version that
    status has for exactly this state is taken over; it is empty if status speaks of another state.
    """
    if not report.found:
        known = before.known if before is not None else {}
        return CachedContent(report=report, known=known, content_version=before.content_version if before else "")
    known = {key: content.digest if content is not None else None for key, content in report.contents.items()}
    if before is None or not before.known:
        version = version_after_restart or report.resource_version
    elif all(key in before.known and before.known[key] == digest for key, digest in known.items()):
        version = before.content_version
    else:
        version = report.resource_version
    return CachedContent(report=report, known=known, content_version=version or report.resource_version)
