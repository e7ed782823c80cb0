"""Answers ``ValueSourceContent``: reads one Secret or ConfigMap, and lets no value out.

Values exist in this module only while one answer is made. What leaves it of a value is a digest under a key that was
drawn when the process started: it can be compared with what the same process saw before, and with nothing else.
"""

import hashlib
import os
import re
from collections.abc import Callable, Mapping

from magos.api.kube import CONFIG_MAPS, SECRETS
from magos.api.variableset import SourceKind
from magos.reconcilers.variableset.valuesources import Content, ValueSourceContent, ValueSourceReport
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError

_KEY_BYTES = 32
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
"""What an object may be called; with any other name there is none, and the API server need not be asked."""


class SourceReader:
    """The probe handler of one process; ``draw`` gives its key."""

    def __init__(self, draw: Callable[[int], bytes] = os.urandom) -> None:
        self._key = draw(_KEY_BYTES)

    async def __call__(self, probe: ValueSourceContent, client: ApiClient) -> ValueSourceReport:
        """Return the report; an object that may not be read is an answer, everything transient is raised."""
        nothing = dict.fromkeys(probe.keys)
        if _NAME.fullmatch(probe.name) is None:
            return ValueSourceReport(contents=nothing)
        try:
            version, values = await self._read(probe, client)
        except ApiError as error:
            if error.not_found:
                return ValueSourceReport(contents=nothing)
            if error.forbidden:
                return ValueSourceReport(forbidden=True, contents=nothing)
            raise
        contents = {key: self._content(values[key]) if key in values else None for key in probe.keys}
        return ValueSourceReport(resource_version=version, contents=contents)

    async def _read(self, probe: ValueSourceContent, client: ApiClient) -> tuple[str, Mapping[str, bytes]]:
        if probe.kind is SourceKind.SECRET:
            secret = await client.get(SECRETS, probe.namespace, probe.name)
            return secret.metadata.resource_version, secret.data
        config_map = await client.get(CONFIG_MAPS, probe.namespace, probe.name)
        # A key of binaryData cannot be a variable: the kubelet looks into data alone.
        texts = {key: text.encode() for key, text in config_map.data.items()}
        return config_map.metadata.resource_version, texts

    def _content(self, value: bytes) -> Content:
        return Content(digest=self._digest(value), size=len(value), text=_is_text(value))

    def _digest(self, value: bytes) -> bytes:
        return hashlib.blake2b(value, key=self._key, digest_size=32).digest()


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in value
