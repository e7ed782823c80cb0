"""The password of the admin account, checked by bcrypt beside the event loop.

A wrong password, a disabled account and one without a password take the same time and get the same answer. At most
``THREADS`` are checked at once and ``WAITING`` more may wait, so that guesses cannot take the machine.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import bcrypt

from magos.server.auth.ratelimit import too_many
from magos.server.auth.settings import AdminSettings

THREADS = 2
WAITING = 16
_SIGNIFICANT = 72
"""Bytes of a password that bcrypt looks at; programs that make hashes cut there too."""


class Passwords:
    """Checks passwords. ``close`` ends the threads."""

    def __init__(self, settings: AdminSettings) -> None:
        self._settings = settings
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="bcrypt")
        self._under_way = 0

    async def is_right(self, password: str) -> bool:
        """Tell whether this is the password and the account is enabled; ``Problem`` 429 if too many ask at once."""
        if self._under_way >= THREADS + WAITING:
            raise too_many(1)
        self._under_way += 1
        try:
            loop = asyncio.get_running_loop()
            matches = await loop.run_in_executor(self._pool, self._matches, password)
        finally:
            self._under_way -= 1
        return matches and self._settings.enabled

    def close(self) -> None:
        """Take no more passwords."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _matches(self, password: str) -> bool:
        given = password.encode(errors="surrogateescape")[:_SIGNIFICANT]
        real = self._settings.password_hash.reveal()
        matches = bcrypt.checkpw(given.replace(b"\0", b"\xff"), real or self._stand_in)
        return matches and bool(real) and b"\0" not in given

    @cached_property
    def _stand_in(self) -> bytes:
        return bcrypt.hashpw(b"nobody's", bcrypt.gensalt(12))
