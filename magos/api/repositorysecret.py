"""The keys of a repository Secret, and which of them are used (spec §5.3).

Magos finds such a Secret by a label and by its ``repoURL``. The workspace controller, RefWatcher and the runner read
the other keys; ``login_keys`` says which of them log in.
"""

from collections.abc import Collection
from typing import Final

from magos.api.labels import REPOSITORY, SECRET_TYPE

SELECTOR: Final = f"{SECRET_TYPE}={REPOSITORY}"
"""Selects the repository Secrets of a namespace."""

URL: Final = "repoURL"
SSH_PRIVATE_KEY: Final = "sshPrivateKey"
USERNAME: Final = "username"
PASSWORD: Final = "password"  # noqa: S105 - the name of a key
KNOWN_HOSTS: Final = "known_hosts"
CA_BUNDLE: Final = "caBundle"
INSECURE_IGNORE_HOST_KEY: Final = "insecureIgnoreHostKey"

KEYS: Final = (CA_BUNDLE, INSECURE_IGNORE_HOST_KEY, KNOWN_HOSTS, PASSWORD, SSH_PRIVATE_KEY, USERNAME)
"""Everything that is read besides ``URL``, by name."""

DEFAULT_USERNAME: Final = "git"
"""User name of basic authentication and of SSH where none is given."""


def login_keys(keys: Collection[str]) -> tuple[str, ...]:
    """Return those of ``keys``, which have values, that log in: an SSH key wins over user name and password.

    Without a password there is no login, and with a password alone the user is ``DEFAULT_USERNAME``.
    """
    if SSH_PRIVATE_KEY in keys:
        return (SSH_PRIVATE_KEY,)
    if PASSWORD not in keys:
        return ()
    return (PASSWORD, USERNAME) if USERNAME in keys else (PASSWORD,)


def lacks_password(keys: Collection[str]) -> bool:
    """Tell whether ``keys`` name a user that nothing can log in: such a Secret is refused."""
    return USERNAME in keys and not login_keys(keys)
