"""What conditions add to a state: trouble that stands beside phase and reason."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from magos.api.conditions import ConditionType, find
from magos.api.workspace import Workspace
from magos.explain.account import Account, Attention, clause, subject, time_of


class _Overlay(Struct, frozen=True, kw_only=True):
    """``worse``: what a state becomes by it which was of these kinds; any other keeps its kind."""

    says: str
    holder: str
    step: str
    worse: frozenset[Attention] = frozenset()


_OVERLAYS: Final[Mapping[ConditionType, _Overlay]] = MappingProxyType(
    {
        ConditionType.API_TROUBLE: _Overlay(
            says="the Kubernetes API server does not carry out what Magos asks for",
            holder="the Kubernetes API server",
            step="look at the API server, admission webhooks and quotas; Magos goes on by itself",
            worse=frozenset({Attention.RUNNING, Attention.WAITING, Attention.SETTLED}),
        ),
        ConditionType.SOURCE_UNREACHABLE: _Overlay(
            says="its repository cannot be listed, so new commits are not noticed",
            holder="the Git server",
            step="check the network, spec.source.repoURL and the repository Secret",
            worse=frozenset({Attention.SETTLED}),
        ),
        ConditionType.INVALID_ANNOTATIONS: _Overlay(
            says="annotations of it cannot be read",
            holder="",
            step="correct the annotation that is named",
        ),
        ConditionType.HISTORY_BACKLOG: _Overlay(
            says="ended runs of it wait to be stored",
            holder="",
            step="look at the database and the bucket of the run history",
        ),
    }
)
"""From what weighs most to what weighs least."""


def with_conditions(account: Account, workspace: Workspace) -> Account:
    """Return the account with what the conditions of the Workspace add to it."""
    named = subject(workspace)
    for type_, overlay in _OVERLAYS.items():
        found = find(workspace.status.conditions, type_)
        if found is None or found.status != "True":
            continue
        told = clause(found.message)
        text = f"{overlay.says}{f': {told}' if told else ''}"
        if account.attention in overlay.worse:
            account = Account(
                attention=Attention.BROKEN,
                sentence=f"{named} is in trouble: {text}. {account.sentence}",
                holder=overlay.holder,
                since=time_of(found.last_transition_time),
                next_steps=(overlay.step, *account.next_steps),
            )
        else:
            account = replace(
                account,
                sentence=f"{account.sentence} Besides, {text}.",
                next_steps=(*account.next_steps, overlay.step),
            )
    return account
