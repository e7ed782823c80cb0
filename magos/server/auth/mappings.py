"""Which ServiceAccounts an OIDC caller acts as: those whose annotations list claims of the caller (spec §9.4).

Laws: a mapping matches if **every** claim it lists shares at least one value with the token; an empty mapping, and one
that cannot be read, matches nobody; accounts of a namespace count for that namespace only, but for the release
namespace and the global ones.
"""

from collections.abc import Iterable, Mapping

import msgspec
import structlog
from msgspec import Struct

from magos.api.annotations import CLAIM_PREFIX, CLAIMS
from magos.api.kube.mappedaccounts import MappedAccount
from magos.runtime.cache.cache import Change
from magos.runtime.cache.informer import Informer

MOST = 32
"""Accounts a caller acts as in one request. More would let a namespace make every question cost without end."""

log = structlog.get_logger(__name__)


class Malformed(Exception):
    """Annotations that say nothing. The text names what is wrong, without values."""


class Account(Struct, frozen=True, kw_only=True):
    """A ServiceAccount by name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """``<namespace>/<name>``."""
        return f"{self.namespace}/{self.name}"


ClaimMapping = Mapping[str, frozenset[str]]
"""Claim names to the values of which one is needed. All claims are needed."""


def mapping_of(annotations: Mapping[str, str]) -> ClaimMapping | None:
    """Return what the annotations list, None if nothing; raise ``Malformed``."""
    listed: dict[str, set[str]] = {}
    found = False
    if CLAIMS in annotations:
        found = True
        try:
            document = msgspec.json.decode(annotations[CLAIMS], type=dict[str, list[str]])
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise Malformed(f"{CLAIMS} is not a JSON object of lists of texts") from None
        for name, several in document.items():
            listed.setdefault(name, set()).update(several)
    for key, text in annotations.items():
        if key.startswith(CLAIM_PREFIX):
            found = True
            values = {part.strip() for part in text.split(",")} - {""}
            listed.setdefault(key.removeprefix(CLAIM_PREFIX), set()).update(values)
    wrong = next((name for name, values in listed.items() if not name or not values - {""}), None)
    if wrong is not None:
        raise Malformed(f"claim {wrong!r} lists no value")
    return {name: frozenset(values) for name, values in listed.items()} if found else None


def matches(mapping: ClaimMapping, claims: Mapping[str, tuple[str, ...]]) -> bool:
    """Tell whether a caller with these claims acts as the account."""
    return bool(mapping) and all(not values.isdisjoint(claims.get(name, ())) for name, values in mapping.items())


class Mappings:
    """The mappings of all accounts, kept up to date by an informer."""

    def __init__(self, informer: Informer[MappedAccount], release_namespace: str, others: Iterable[str]) -> None:
        names = (release_namespace, *others)
        self._everywhere = tuple(dict.fromkeys(name for name in names if name))
        self._by_namespace: dict[str, dict[str, ClaimMapping]] = {}
        self._informer = informer
        self._told: dict[Account, str] = {}
        informer.add_handler(self._changed)

    @property
    def synced(self) -> bool:
        """Whether all accounts are known: before that, nobody can be told that nothing matches."""
        return self._informer.synced

    def acted_as(self, claims: Mapping[str, tuple[str, ...]], namespace: str = "") -> tuple[Account, ...]:
        """Return the accounts for a request into ``namespace`` (empty: into none), at most ``MOST``."""
        places = dict.fromkeys((*self._everywhere, namespace) if namespace else self._everywhere)
        found: list[Account] = []
        for place in places:
            for name, mapping in sorted(self._by_namespace.get(place, {}).items()):
                if matches(mapping, claims):
                    found.append(Account(namespace=place, name=name))
                    if len(found) == MOST:
                        return tuple(found)
        return tuple(found)

    def used(self) -> Mapping[str, frozenset[str]]:
        """Return the claims that any mapping uses, with the values."""
        listed: dict[str, set[str]] = {}
        for accounts in self._by_namespace.values():
            for mapping in accounts.values():
                for name, values in mapping.items():
                    listed.setdefault(name, set()).update(values)
        return {name: frozenset(values) for name, values in listed.items()}

    def _changed(self, change: Change[MappedAccount]) -> None:
        present = change.new
        metadata = (present or change.old or MappedAccount()).metadata
        account = Account(namespace=metadata.namespace, name=metadata.name)
        mapping = None
        if present is not None and not metadata.deletion_timestamp:
            try:
                mapping = mapping_of(metadata.annotations)
                self._told.pop(account, None)
            except Malformed as error:
                self._tell(account, str(error))
        else:
            self._told.pop(account, None)
        accounts = self._by_namespace.setdefault(account.namespace, {})
        accounts.pop(account.name, None)
        if mapping is not None:
            accounts[account.name] = mapping
        if not accounts:
            del self._by_namespace[account.namespace]

    def _tell(self, account: Account, problem: str) -> None:
        if self._told.get(account) != problem:
            self._told[account] = problem
            log.warning(
                "mapping of claims cannot be read and matches nobody",
                namespace=account.namespace,
                serviceaccount=account.name,
                problem=problem,
            )
