"""Answers ``RepositorySecrets``: which repository Secret belongs to a URL, without any value leaving this module.

Labelled Secrets are listed as metadata and read by name. What is remembered of a Secret is a hash of its ``repoURL``
and the names of its keys, for exactly the version that was read; so a namespace with many Secrets is not read again
and again, and nothing secret stays in memory.
"""

from collections import OrderedDict

from msgspec import Struct

from magos.api.kube import SECRET_METADATA, SECRETS, SecretMetadata
from magos.api.likeness import likeness
from magos.api.repositorysecret import KEYS, SELECTOR, URL
from magos.ids import Digest, digest_of
from magos.reconcilers.effects import RepositorySecretReport, RepositorySecrets
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError

_MOST_REMEMBERED = 4096


class _Known(Struct, frozen=True):
    """What one version of one Secret says: the hash of its ``repoURL`` (None: it has none) and its known keys.

    ``like`` is the hash of what all spellings of that URL have in common.
    """

    url: Digest | None
    like: Digest | None
    keys: tuple[str, ...]


class RepositorySecretReader:
    """The probe handler of one process."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    async def __call__(self, probe: RepositorySecrets, client: ApiClient) -> RepositorySecretReport:
        """Return the report; a Secret that vanishes meanwhile counts as absent, one that cannot be decoded does not."""
        page = await client.list_all(SECRET_METADATA, probe.namespace, selector=SELECTOR)
        wanted, like = digest_of(probe.repo_url.encode()), _like(probe.repo_url)
        matching: list[tuple[str, _Known]] = []
        incomplete: list[str] = []
        similar: list[str] = []
        for secret in sorted(page.complete(SECRET_METADATA), key=_age):
            known = await self._read(secret, client)
            if known is not None and known.url is None:
                incomplete.append(secret.metadata.name)
            elif known is not None and known.url == wanted:
                matching.append((secret.metadata.name, known))
            elif known is not None and known.like == like:
                similar.append(secret.metadata.name)
        return RepositorySecretReport(
            names=tuple(name for name, _ in matching),
            keys=matching[0][1].keys if matching else (),
            incomplete=tuple(incomplete),
            similar=() if matching else tuple(similar),
        )

    async def _read(self, secret: SecretMetadata, client: ApiClient) -> _Known | None:
        meta = secret.metadata
        version = (meta.uid, meta.resource_version)
        known = self._known.get(version)
        if known is None:
            try:
                full = await client.get(SECRETS, meta.namespace, meta.name)
            except ApiError as error:
                if error.not_found:
                    return None
                raise
            url = full.data.get(URL)
            known = _Known(
                url=digest_of(url) if url is not None else None,
                like=_like(url.decode(errors="replace")) if url is not None else None,
                keys=tuple(key for key in KEYS if full.data.get(key)),
            )
            if full.metadata.resource_version != meta.resource_version:
                return known  # read later than listed: right for now, but not for that version
            self._known[version] = known
            while len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(version)
        return known


def _like(repo_url: str) -> Digest:
    return digest_of(likeness(repo_url).encode())


def _age(secret: SecretMetadata) -> tuple[str, str]:
    """The oldest wins, then the name: RFC 3339 in UTC sorts as text."""
    return secret.metadata.creation_timestamp or "", secret.metadata.name
