"""Refusals for whoever reads with a browser: the login page, or a page that says what, why and what to do."""

from collections.abc import Callable
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from magos.server.pages.visit import root_of, shell_of
from magos.server.problems import Problem
from magos.ui import errors
from magos.ui.render import render

_PROGRAMS = ("/apis/", "/api/", "/dex/", "/static/")
RETURN = "return"
"""Parameter of /login: the local path to go on with."""


def refusal_pages(base_url: str, version: str) -> Callable[[Request, Problem], Response | None]:
    """Return what makes a page of a refusal; it returns None where a program asked."""

    root = root_of(base_url)

    def page(request: Request, problem: Problem) -> Response | None:
        path = request.url.path
        if path.startswith(_PROGRAMS) or "text/html" not in request.headers.get("accept", ""):
            return None
        query = f"?{request.url.query}" if request.url.query else ""
        if problem.status == 401 and request.method in ("GET", "HEAD"):
            back = quote(path + query, safe="/")
            return RedirectResponse(f"{root}/login?{RETURN}={back}", 303)
        back = "/login" if problem.status == 401 else _back(request)
        view = errors.view(problem.status, problem.text, back)
        response = HTMLResponse(render("error", shell_of(request, path, root, version), view), problem.status)
        response.headers.update({k: v for k, v in problem.headers.items() if k.lower() != "www-authenticate"})
        return response

    return page


def _back(request: Request) -> str:
    """Return the path that leads out: of a form that was refused its object's page, otherwise its section."""
    parts = request.url.path.split("/")
    if request.method == "POST" and len(parts) > 4:
        return "/".join(parts[:4])
    return "/" if len(parts) < 3 else f"/{parts[1]}"
