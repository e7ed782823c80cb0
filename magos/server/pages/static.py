"""The files that pages load. They are open to everybody, and their addresses change with their content."""

from starlette.requests import Request
from starlette.responses import Response

from magos.server.problems import Problem
from magos.ui.render import assets, static_file

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


async def serve(request: Request) -> Response:
    """Return a file. Raises a ``Problem`` 404 for any other name."""
    name = request.path_params["file"]
    try:
        content = static_file(name)
    except KeyError:
        raise Problem(404, f"there is nothing at {request.url.path}") from None
    current = request.query_params.get("v") == assets()
    kept = "public, max-age=31536000, immutable" if current else "no-cache"
    media = _TYPES[name.rpartition(".")[2]]
    return Response(content, headers={"Cache-Control": kept, "Content-Type": f"{media}; charset=utf-8"})
