"""Objects as JSON: full resources with ``apiVersion`` and ``kind``, as the OpenAPI document describes them.

What has its default value is left out, as the schema says what the default is.
"""

from typing import Any

import msgspec
from starlette.responses import Response

from magos.api.meta import Kind

JSON = "application/json"

_encoder = msgspec.json.Encoder()


def resource(kind: Kind[Any], item: Any) -> bytes:
    """Return an object of this kind as JSON."""
    head = f'{{"apiVersion":"{kind.api_version}","kind":"{kind.name}",'
    return head.encode() + _encoder.encode(item)[1:]  # metadata is always there: the rest never begins with a brace


def answer(value: Any, status: int = 200) -> Response:
    """Return an answer whose body is ``value`` as JSON."""
    return Response(_encoder.encode(value), status, media_type=JSON)
