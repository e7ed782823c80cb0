"""The credentials of one repository, in a form that cannot leak through a log line.

Values come from the repository Secret (spec §5.3). The representation tells which values are set, never what they are.
"""

from enum import StrEnum

import msgspec

from magos.api.repositorysecret import DEFAULT_USERNAME
from magos.git.errors import GitError, GitReason
from magos.masking.message import compose


class CredentialKind(StrEnum):
    """What the server was offered; error messages name it."""

    NONE = "access without credentials"
    SSH_KEY = "the SSH key of the repository Secret"
    BASIC = "user name and password of the repository Secret"


class Credentials(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Everything the repository Secret says. An SSH key wins over basic authentication; all empty is anonymous."""

    ssh_private_key: str | None = None
    username: str | None = None
    password: str | None = None
    known_hosts: str | None = None
    ca_bundle: str | None = None
    insecure_ignore_host_key: bool = False

    def __repr__(self) -> str:
        """Return which values are set; the values themselves are never shown."""
        present = [name for name in self.__struct_fields__ if getattr(self, name)]
        return f"Credentials(set: {', '.join(present) or 'nothing'})"

    __str__ = __repr__

    def basic_auth(self) -> tuple[str, str] | None:
        """Return user name and password for HTTP, or ``None``; a password alone goes with the user name ``git``.

        Raises ``GitError`` (GitAuthenticationFailed) for values that no server could be sent.
        """
        if self.ssh_private_key or not self.password:
            return None
        username = self.username or DEFAULT_USERNAME
        if ":" in username or any(ord(character) < 32 for character in username + self.password):
            raise GitError(
                GitReason.GIT_AUTHENTICATION_FAILED,
                compose(
                    "the repository Secret's user name has a colon, or its user name or password has a control"
                    " character (a line break at the end?); correct the Secret"
                ),
            )
        return username, self.password

    def secrets(self) -> tuple[str, ...]:
        """Return the texts that must not be shown: the values, and how basic authentication joins two of them."""
        values = [value for value in (self.ssh_private_key, self.username, self.password) if value]
        if self.password:
            values.append(f"{self.username or DEFAULT_USERNAME}:{self.password}")
        return tuple(values)

    def without_login(self) -> "Credentials":
        """Return what another origin may still use: certificate authorities and host keys, but no way to log in."""
        return Credentials(known_hosts=self.known_hosts, ca_bundle=self.ca_bundle)


ANONYMOUS = Credentials()
