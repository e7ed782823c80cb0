"""Downloads with bounds: connect, read and total time, size, and a message that names the URL.

Proxies are taken from the environment as every HTTP client does. The module imports the HTTP client and is itself
imported lazily.
"""

import time
from pathlib import Path

import httpx

from magos.toolchain.errors import ToolError, ToolReason
from magos.toolchain.releases import shown

__all__ = ["Missing", "download", "open_client"]

_CHUNK = 1 << 20
_ATTEMPTS = 3
_RETRIED = {408, 425, 429, 500, 502, 503, 504}


class Missing(ToolError):
    """The server says that there is no such file (404, 410, or 403 as object stores answer)."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(
            ToolReason.TOOL_DOWNLOAD_FAILED,
            f"{shown(url)} does not exist (HTTP {status}); check that the version exists and the mirror holds it",
        )
        self.status = status


def open_client(timeout: float) -> httpx.Client:
    """Return a client whose single operations take at most 30 s and never more than ``timeout``; close it after use."""
    limits = httpx.Timeout(min(30.0, timeout), connect=min(15.0, timeout))
    return httpx.Client(timeout=limits, follow_redirects=True, headers={"User-Agent": "magos"})


def download(client: httpx.Client, url: str, target: Path, *, deadline: float, largest: int) -> None:
    """Write what ``url`` serves to ``target``; ``deadline`` is a time of the monotonic clock, ``largest`` in bytes.

    A broken connection or a passing server error is tried three times in all. Raises ``Missing`` or ``ToolError``
    (ToolDownloadFailed).
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _once(client, url, target, deadline, largest)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            final = attempt == _ATTEMPTS or isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol)
            if final or time.monotonic() >= deadline or not _passing(error):
                raise _failed(url, _cause(error)) from error
            time.sleep(0.5 * attempt)
        else:
            return


def _once(client: httpx.Client, url: str, target: Path, deadline: float, largest: int) -> None:
    with client.stream("GET", url) as response:
        if response.status_code in {403, 404, 410}:
            raise Missing(url, response.status_code)
        response.raise_for_status()
        size = 0
        with target.open("wb") as file:
            for chunk in response.iter_bytes(_CHUNK):
                size += len(chunk)
                if size > largest:
                    raise _failed(url, f"it is larger than {largest:,} bytes")
                if time.monotonic() >= deadline:
                    raise _failed(url, "the download took too long")
                file.write(chunk)


def _passing(error: Exception) -> bool:
    return not isinstance(error, httpx.HTTPStatusError) or error.response.status_code in _RETRIED


def _cause(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"HTTP {error.response.status_code}"
    return str(error) or type(error).__name__


def _failed(url: str, cause: str) -> ToolError:
    return ToolError(
        ToolReason.TOOL_DOWNLOAD_FAILED, f"cannot download {shown(url)}: {cause}; check the network, proxy and mirror"
    )
