"""Label selectors: the Kubernetes schema, their meaning, and their text form.

An absent selector selects nothing and ``{}`` selects everything; that difference is the caller's (``None`` against an
empty ``LabelSelector``). A ``LabelSelector`` is what stands in an object and may be nonsense; ``compile_selector``
makes a ``Selector`` of it or says what is wrong. Source: ``metav1.LabelSelector`` and the grammar of selector texts.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

from msgspec import Struct, field

from magos.api.labels import is_label_key, is_label_value


class LabelSelectorRequirement(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """One entry of ``matchExpressions``, as written."""

    key: str
    """Key of the label."""

    operator: str
    """How to compare the label: In, NotIn (which an object without the label meets too), Exists or DoesNotExist."""

    values: tuple[str, ...] = ()
    """At least one value for In and NotIn; no value for Exists and DoesNotExist."""


class LabelSelector(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A selector as written; all its parts must hold."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels, with their values, that an object must have. Default: none."""

    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    """Further requirements that the labels of an object must meet, every one of them. Default: none."""


class Operator(StrEnum):
    """What a requirement asks of a label."""

    EQUALS = "="
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(Struct, frozen=True, gc=False):
    """One checked requirement; ``values`` are sorted and unique."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether ``labels`` satisfy the requirement. ``NotIn`` also holds where the label is absent."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.EQUALS | Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case _:
                assert_never(self.operator)

    def __str__(self) -> str:
        """Return the requirement in selector text."""
        match self.operator:
            case Operator.EQUALS:
                return f"{self.key}={self.values[0]}"
            case Operator.IN:
                return f"{self.key} in ({','.join(self.values)})"
            case Operator.NOT_IN:
                return f"{self.key} notin ({','.join(self.values)})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case _:
                assert_never(self.operator)


class Selector(Struct, frozen=True, gc=False):
    """A checked selector: requirements sorted by key, all of which must hold."""

    requirements: tuple[Requirement, ...] = ()

    @property
    def everything(self) -> bool:
        """True for the empty selector, which selects every object."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        """Return the selector as text for the Kubernetes API; equal selectors give equal texts."""
        return ",".join(map(str, self.requirements))


def compile_selector(selector: LabelSelector) -> Selector:
    """Return the checked form of ``selector``; raise ``ValueError`` that names the part that is wrong."""
    requirements = [_equals(key, value) for key, value in selector.match_labels.items()]
    requirements += [_expression(expression) for expression in selector.match_expressions]
    return Selector(tuple(sorted(set(requirements), key=lambda r: (r.key, str(r)))))


def _equals(key: str, value: str) -> Requirement:
    _check(key, (value,))
    return Requirement(key, Operator.EQUALS, (value,))


def _expression(written: LabelSelectorRequirement) -> Requirement:
    try:
        operator = Operator(written.operator)
    except ValueError:
        operator = Operator.EQUALS
    if operator is Operator.EQUALS:
        raise ValueError(
            f"operator {written.operator!r} of label {written.key!r} must be In, NotIn, Exists or DoesNotExist"
        )
    _check(written.key, written.values)
    takes_values = operator in (Operator.IN, Operator.NOT_IN)
    if takes_values and not written.values:
        raise ValueError(f"{operator} requires at least one value (label {written.key!r})")
    if not takes_values and written.values:
        raise ValueError(f"{operator} must not have values (label {written.key!r})")
    return Requirement(written.key, operator, tuple(sorted(set(written.values))))


def _check(key: str, values: tuple[str, ...]) -> None:
    if not is_label_key(key):
        raise ValueError(f"invalid label key or value: {key!r} is not a label key")
    wrong = next((value for value in values if not is_label_value(value)), None)
    if wrong is not None:
        raise ValueError(f"invalid label key or value: {wrong!r} is not a value of label {key!r}")
