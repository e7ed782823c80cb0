"""What goes wrong between a client and the API server, on order or at random from the server's seed."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from magos.runtime.client.transport import HttpRequest
from tests.sim.apiserver import problems

__all__ = ["Answer", "Fault", "Faults", "Hang", "Late", "Lose", "Rule"]


@dataclass(frozen=True, kw_only=True)
class Lose:
    """The connection breaks: before the server did anything (``effect=False``) or after it committed."""

    effect: bool = False


@dataclass(frozen=True, kw_only=True)
class Hang:
    """No answer within the request's timeout, with or without effect."""

    effect: bool = False


@dataclass(frozen=True, kw_only=True)
class Late:
    """No answer within the request's timeout, and the request takes effect ``seconds`` after the client gave up.

    So it may happen where a request waits in a queue, or in an admission webhook, longer than its client does.
    """

    seconds: float


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An error answer. With ``effect`` the write was committed nevertheless, as etcd timeouts do."""

    code: int = 500
    reason: str = "InternalError"
    message: str = "an error on the server has prevented the request from succeeding"
    retry_after: int = 0
    effect: bool = False

    def problem(self) -> problems.Problem:
        """Return the Status to answer with."""
        return problems.Problem(self.code, self.reason, self.message, retry_after=self.retry_after)


Fault: TypeAlias = Lose | Hang | Late | Answer


@dataclass(kw_only=True)
class Rule:
    """Strike the requests that match: after ``skip`` of them, ``times`` (None: for ever), each with ``probability``."""

    fault: Fault
    methods: frozenset[str] = frozenset()
    path: str = ""
    skip: int = 0
    times: int | None = 1
    probability: float = 1.0
    only: Callable[[HttpRequest], bool] = lambda _request: True
    struck: int = field(default=0, init=False)

    def strikes(self, request: HttpRequest, rng: random.Random) -> bool:
        """Tell whether this request is struck, and count."""
        if self.times is not None and self.struck >= self.times:
            return False
        if (self.methods and request.method not in self.methods) or self.path not in request.path:
            return False
        if not self.only(request):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.probability < 1 and rng.random() >= self.probability:
            return False
        self.struck += 1
        return True


class Faults:
    """The rules in force, in the order in which they were added; the first that strikes wins."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._rules: list[Rule] = []

    def add(self, rule: Rule) -> Rule:
        """Put a rule in force."""
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """End all faults."""
        self._rules.clear()

    def pick(self, request: HttpRequest) -> Fault | None:
        """Return what strikes this request."""
        for rule in self._rules:
            if rule.strikes(request, self._rng):
                return rule.fault
        return None
