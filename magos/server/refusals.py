"""What an error means to whoever asked (spec §14.3): its status and a text without internals."""

from collections.abc import Callable

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from magos.history.archive import ArchiveUnavailable
from magos.history.store import HistoryUnavailable
from magos.runtime.client.errors import ApiError
from magos.server.encoding import answer
from magos.server.problems import Problem

Render = Callable[[Request, Problem], Response | None]
"""Returns a page for whoever reads with a browser; None where the answer is to be JSON."""

_log = structlog.get_logger(__name__)


def as_json(problem: Problem) -> Response:
    """Return ``{"error": ...}``, with the run that waits where there is one."""
    body = {"error": problem.text, **({"runID": problem.run_id} if problem.run_id else {})}
    response = answer(body, problem.status)
    response.headers.update(problem.headers)
    return response


def answer_to(error: Exception, path: str) -> Problem:
    """Return the refusal that stands for ``error``; what it hides is logged."""
    match error:
        case Problem():
            return error
        case HTTPException():
            return _of_router(error, path)
        case HistoryUnavailable() | ArchiveUnavailable():
            _log.warning("history is unavailable", path=path, error=str(error))
            return Problem(503, "history temporarily unavailable", headers={"Retry-After": "5"})
        case ApiError():
            return _of_cluster(error, path)
        case _:
            _log.error("request failed", path=path, error=str(error), exc_info=error)
            return Problem(500, "internal error: the log of the server says more")


def _of_router(error: HTTPException, path: str) -> Problem:
    headers = dict(error.headers or {})
    match error.status_code:
        case 404:
            return Problem(404, f"there is nothing at {path}", headers=headers)
        case 405:
            return Problem(405, f"{path} takes other methods: {headers.get('Allow', '')}", headers=headers)
        case _:
            return Problem(error.status_code, error.detail, headers=headers)


def _of_cluster(error: ApiError, path: str) -> Problem:
    """The cluster's own words may name what the caller may not see: they go into the log."""
    _log.warning("the Kubernetes API did not do what was asked", path=path, error=str(error))
    if error.unknown_outcome:
        return Problem(503, "the Kubernetes API gave no answer: look whether it was done before you try again")
    if error.transient:
        return Problem(503, "the Kubernetes API does not answer: try again", headers={"Retry-After": "5"})
    return Problem(503, "the Kubernetes API refused this to the server itself: its log says why")
