"""Which credentials a namespace has for a repository, exactly as the runner gets them (spec §5.3).

Values are read where they are used and forgotten at once. What is kept are fingerprints: keyed hashes that are equal
for equal credentials within this process and worth nothing outside of it.
"""

import contextlib
import hashlib
import secrets
from collections.abc import Iterable

import anyio
import msgspec
from msgspec import Struct

from magos.api import repositorysecret as keys
from magos.api.kube import SECRETS, Secret
from magos.api.likeness import likeness
from magos.git.credentials import ANONYMOUS as NO_CREDENTIALS
from magos.git.credentials import Credentials
from magos.ids import Digest, digest_of
from magos.reconcilers.refwatcher.watch import ANONYMOUS, Access, RepositoryAccess, Version
from magos.runtime.client.client import ApiClient


class SecretProblem(ValueError):
    """The repository Secret cannot be used; the text names it, what is wrong and what to do."""


class _Known(Struct, frozen=True):
    """What the Secrets of a namespace said when the caches had these versions of them, by the hash of ``repoURL``.

    ``similar`` is anonymous access with a hint, by the hash of what all spellings of the URL have in common.
    """

    versions: tuple[Version, ...]
    accesses: dict[Digest, Access]
    similar: dict[Digest, Access]


class AccessReader:
    """The probe handler for ``RepositoryAccess``, and the reader of values for a poll. One per process."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[str, _Known] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def __call__(self, probe: RepositoryAccess, client: ApiClient) -> Access:
        """Return the access; the Secrets of a namespace are read once for each change of them."""
        async with self._locks.setdefault(probe.namespace, anyio.Lock()):
            known = self._known.get(probe.namespace)
            if known is None or known.versions != probe.versions:
                page = await client.list_all(SECRETS, probe.namespace, selector=keys.SELECTOR)
                found = page.complete(SECRETS)
                known = _Known(probe.versions, self._accesses(found), _similar(found))
                self._known[probe.namespace] = known
        exact = known.accesses.get(digest_of(probe.repo_url.encode()))
        if exact is not None:
            return exact
        return known.similar.get(digest_of(likeness(probe.repo_url).encode()), ANONYMOUS)

    async def read(self, client: ApiClient, namespace: str, access: Access) -> Credentials | None:
        """Return the values behind ``access``, None if they are not there any more.

        The Secrets are listed by name: RefWatcher may list and watch, but not get.
        """
        if not access.fingerprint:
            return NO_CREDENTIALS
        page = await client.list_all(
            SECRETS, namespace, selector=keys.SELECTOR, field_selector=f"metadata.name={access.secret}"
        )
        for secret in page.items:
            with contextlib.suppress(SecretProblem):  # it is not what it was; the pass that follows says so
                credentials = credentials_of(secret)
                if self._fingerprint(credentials) == access.fingerprint:
                    return credentials
        return None

    def _accesses(self, found: Iterable[Secret]) -> dict[Digest, Access]:
        accesses: dict[Digest, Access] = {}
        for secret in sorted(found, key=_age):
            url = secret.data.get(keys.URL)
            if url is not None:
                accesses.setdefault(digest_of(url), self._access(secret))
        return accesses

    def _access(self, secret: Secret) -> Access:
        name = secret.metadata.name
        try:
            fingerprint = self._fingerprint(credentials_of(secret))
        except SecretProblem as problem:
            return Access(fingerprint=f"unusable:{secret.metadata.uid}", secret=name, problem=str(problem))
        return Access(fingerprint=fingerprint, secret=name if fingerprint else "")

    def _fingerprint(self, credentials: Credentials) -> str:
        if credentials == NO_CREDENTIALS:
            return ""
        return hashlib.blake2b(msgspec.json.encode(credentials), key=self._key, digest_size=16).hexdigest()


def credentials_of(secret: Secret) -> Credentials:
    """Return what a repository Secret says; raise ``SecretProblem`` for what the runner would not get either."""
    values = {key: _text(secret, key) for key in secret.data if key != keys.URL}
    credentials = Credentials(
        ssh_private_key=values.get(keys.SSH_PRIVATE_KEY) or None,
        username=values.get(keys.USERNAME) or None,
        password=values.get(keys.PASSWORD) or None,
        known_hosts=values.get(keys.KNOWN_HOSTS) or None,
        ca_bundle=values.get(keys.CA_BUNDLE) or None,
        insecure_ignore_host_key=values.get(keys.INSECURE_IGNORE_HOST_KEY) == "true",
    )
    if keys.lacks_password([key for key, value in values.items() if value]):
        raise SecretProblem(
            f"repository Secret {secret.metadata.name} has the key username but no password;"
            " add the key password, or remove username for anonymous access"
        )
    return credentials


def _similar(found: Iterable[Secret]) -> dict[Digest, Access]:
    accesses: dict[Digest, Access] = {}
    for secret in sorted(found, key=_age):
        if (url := secret.data.get(keys.URL)) is not None:
            like = digest_of(likeness(url.decode(errors="replace")).encode())
            names = accesses.get(like, ANONYMOUS).similar
            accesses[like] = Access(similar=(*names, secret.metadata.name))
    return accesses


def _text(secret: Secret, key: str) -> str:
    try:
        return secret.data[key].decode()
    except UnicodeDecodeError:
        raise SecretProblem(
            f"key {key} of repository Secret {secret.metadata.name} is not text (UTF-8); correct it"
        ) from None


def _age(secret: Secret) -> tuple[str, str]:
    """The oldest wins, then the name: RFC 3339 in UTC sorts as text."""
    return secret.metadata.creation_timestamp or "", secret.metadata.name
