"""What the login page shows, and the plain page for where no other is given."""

from collections.abc import Callable
from html import escape
from urllib.parse import urlencode

from msgspec import Struct


class LoginView(Struct, frozen=True, kw_only=True):
    """What the page shows.

    It posts ``password``, ``return`` and ``csrf_token`` to /login, or gets /login with ``start=oidc`` and ``return``.
    """

    password: bool
    oidc: bool
    error: str
    return_path: str
    csrf: str


_HEAD = '<!doctype html><html lang="en"><head><meta charset="utf-8">'

RenderLogin = Callable[[LoginView], str]


def plain_page(base_url: str) -> RenderLogin:
    """Return the renderer of a page without style."""

    def render(view: LoginView) -> str:
        action = escape(f"{base_url}/login")
        query = escape(urlencode({"start": "oidc", "return": view.return_path}))
        parts = [
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Log in - Magos</title></head><body>'
        ]
        parts.append("<main><h1>Log in to Magos</h1>")
        if view.error:
            parts.append(f'<p role="alert">{escape(view.error)}. <a href="{action}">Try again</a></p>')
        if view.password:
            parts.append(
                f'<form method="post" action="{action}">'
                f'<input type="hidden" name="csrf_token" value="{escape(view.csrf)}">'
                f'<input type="hidden" name="return" value="{escape(view.return_path)}">'
                '<label>Password of the admin <input type="password" name="password" required'
                ' autocomplete="current-password"></label> <button>Log in</button></form>'
            )
        if view.oidc:
            parts.append(f'<p><a href="{action}?{query}">Log in with the identity provider</a></p>')
        parts.append("</main></body></html>")
        return "".join(parts)

    return render


def forwarding_page(url: str) -> str:
    """Return a page that leads on to ``url``.

    A redirect would do, but where a form led here, browsers apply ``form-action`` of the page before to it.
    """
    address = escape(url)
    return (
        f'{_HEAD}<meta http-equiv="refresh" content="0;url={address}"><title>Log in - Magos</title></head>'
        f'<body><p><a href="{address}">Continue to the identity provider</a></p></body></html>'
    )
