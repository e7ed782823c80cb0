"""The page on which people log in: with a password, through an identity provider, or either."""

from typing import Protocol

from magos.ui.render import assets, render
from magos.ui.shell import Shell


class LoginPage(Protocol):
    """What the page shows."""

    @property
    def password(self) -> bool:
        """Whether the admin may log in with a password."""

    @property
    def oidc(self) -> bool:
        """Whether people may log in through an identity provider."""

    @property
    def error(self) -> str:
        """Why the last attempt failed; empty before one."""

    @property
    def return_path(self) -> str:
        """Local path to go on with, validated."""

    @property
    def csrf(self) -> str:
        """Token for the hidden field ``csrf_token``."""


def login(view: LoginPage, *, root: str = "", version: str = "", theme: str = "") -> str:
    """Return the page. It posts ``password``, ``return`` and ``csrf_token`` to /login.

    The identity provider is reached by a link: a form that is redirected to another host is refused by ``form-action``.
    """
    shell = Shell(root=root, path="/login", version=version, assets=assets(), csrf=view.csrf, theme=theme)
    return render("login", shell, view)
