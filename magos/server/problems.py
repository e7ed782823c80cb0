"""Every refusal of the API server, as one exception that becomes ``{"error": "<text>"}`` (spec §9.1, §14.3)."""

from collections.abc import Mapping

from magos.errors import MagosError


class Problem(MagosError):
    """Ends a request with ``status``. The text is fit for whoever asked: it holds no secret and no internals."""

    def __init__(self, status: int, text: str, *, headers: Mapping[str, str] | None = None, run_id: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = dict(headers or {})
        self.run_id = run_id
        """The run that waits, where another one was to be approved."""


def unauthenticated() -> Problem:
    """Return the answer to no, an invalid or an expired credential."""
    return Problem(401, "authentication required", headers={"WWW-Authenticate": "Bearer"})
