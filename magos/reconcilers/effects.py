"""Queries of our own domain: live reads that only a Terraform operator asks for.

They are data. Who answers them is registered by the app (``magos.adapters``); the answers carry no Secret value.
"""

from msgspec import Struct

from magos.runtime.decision import Query


class RepositorySecrets(Query, frozen=True):
    """Which repository Secret of ``namespace`` belongs to ``repo_url``. Value: ``RepositorySecretReport``.

    A Secret belongs to the repository if its key ``repoURL`` equals ``repo_url`` byte for byte (spec §5.3).
    """

    namespace: str
    repo_url: str


class RepositorySecretReport(Struct, frozen=True, kw_only=True):
    """What may be known about repository Secrets without knowing a value.

    ``names`` are the matching Secrets, the one in force first (oldest, then by name). ``keys`` are the known keys of
    the first one that are present and not empty, sorted. ``incomplete`` are labelled Secrets without a ``repoURL``:
    which repository they were meant for is unknown. ``similar`` are those whose URL is probably a misspelling of
    the one asked for; empty where there is a matching one.
    """

    names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()


class JobEvents(Query, frozen=True):
    """Warning Events about a Job and about its pod, if it has one. Value: tuple of ``JobWarning``, oldest first."""

    namespace: str
    job_uid: str
    pod_uid: str = ""


class JobWarning(Struct, frozen=True, kw_only=True):
    """A Warning Event: the reporting component's reason (``FailedCreate``, ``FailedMount``, ...) and text."""

    reason: str
    note: str
