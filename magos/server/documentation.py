"""Routes of the API's own documentation (spec §9.2)."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec
from starlette.responses import Response

from magos.server import docspage
from magos.server.encoding import JSON
from magos.server.openapi import document
from magos.server.table import Answer, Call, Operation


def with_documentation(others: Iterable[Operation], version: str) -> list[Operation]:
    """Return ``others`` and the operations that tell about all of them; a text is made when it is first asked for."""
    made: dict[str, Any] = {}
    everything = [
        *others,
        _fixed("/openapi.json", "Get the OpenAPI document", JSON, lambda: msgspec.json.encode(made)),
        _fixed("/docs", "Read the documentation", "text/html", lambda: docspage.page(made, "/docs/style.css").encode()),
        _fixed("/docs/style.css", "Get the style of that page", "text/css", docspage.STYLE.encode),
    ]
    made.update(document(everything, version))
    return everything


def _fixed(path: str, summary: str, media: str, make: Callable[[], bytes]) -> Operation:
    text = cache(make)

    async def handler(call: Call) -> Response:
        del call
        return Response(text(), media_type=media)

    return Operation(
        method="GET",
        path=path,
        handler=handler,
        summary=summary,
        answer=Answer(description="The text.", type=dict[str, Any], media=media),
        open=True,
    )
