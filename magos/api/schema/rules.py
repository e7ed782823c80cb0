"""What values must satisfy beyond their type: the admission rules of the four kinds.

Two forms are used on purpose. Schema keywords cost nothing but speak in the API server's words; CEL rules carry a
message of our own. A CEL rule is only evaluated when the schema around it found nothing wrong, so wherever the message
is a promise (a required text, an enumeration, a limit) there is a rule and *no* schema keyword that would speak first.
The ``maxLength`` and ``maxItems`` that remain bound what a rule may cost, not what a user should write.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field


class Rule(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One entry of ``x-kubernetes-validations``."""

    rule: str
    message: str
    message_expression: str = ""
    field_path: str = ""
    reason: str = ""


class FieldRules(Struct, frozen=True, kw_only=True):
    """What is said about one field: schema keywords, CEL rules, and the same about its items or values.

    ``required`` overrides what the Struct says (a field without default is required). ``default`` tells whether the
    Struct's default is written into the schema.
    """

    keywords: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    items: "FieldRules | None" = None
    required: bool | None = None
    default: bool = True


def required(json_name: str, shown: str) -> Rule:
    """Return the rule of an object that its text field is there and not empty."""
    return Rule(
        f"has(self.{json_name}) && self.{json_name} != ''",
        f"{shown} is required and must not be empty",
        field_path=f".{json_name}",
        reason="FieldValueRequired",
    )


def reference(shown: str, *, key: bool = False) -> tuple[Rule, ...]:
    """Return the rules of a reference shown as ``shown``: its name, and its key if it has one, must be there."""
    names = ("name", "key") if key else ("name",)
    return tuple(required(name, f"{shown}.{name}") for name in names)


def text(longest: int, *rules: Rule) -> FieldRules:
    """Return the rules of a text whose presence is asked for by ``required`` on its parent, never by the schema."""
    return FieldRules(keywords={"maxLength": longest}, rules=rules, required=False)


def at_most(entries: int, shown: str) -> Rule:
    """Return the rule of a list that bounds its length."""
    return Rule(f"self.size() <= {entries}", f"{shown} may have at most {entries} entries")


def matches(pattern: str, message: str) -> Rule:
    """Return the rule of a text that it is empty (which is another rule's business) or matches ``pattern``."""
    return Rule(f"self == '' || self.matches(r'{pattern}')", message)


def must_not_match(pattern: str, message: str) -> Rule:
    """Return the rule of a text that it is empty (which is another rule's business) or does not match ``pattern``."""
    return Rule(f"self == '' || !self.matches(r'{pattern}')", message)
