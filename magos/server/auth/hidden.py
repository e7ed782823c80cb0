"""A secret of the process: what prints a settings object, a frame or an exception does not print it (invariant I10)."""

import hashlib
import hmac
import secrets


class Hidden:
    """Bytes that are never shown. Compare nothing with it; derive keys from it."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    @classmethod
    def random(cls) -> "Hidden":
        """Return 32 bytes nobody else knows."""
        return cls(secrets.token_bytes(32))

    def reveal(self) -> bytes:
        """Return the bytes. Whoever asks must not log them."""
        return self._value

    def derive(self, purpose: str) -> "Hidden":
        """Return the key for one purpose: what is signed for one is worth nothing for another."""
        return Hidden(hmac.new(self._value, b"magos/" + purpose.encode(), hashlib.sha256).digest())

    def mac(self, text: str) -> str:
        """Return the HMAC-SHA256 of ``text`` as hexadecimal digits."""
        return hmac.new(self._value, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()

    def __repr__(self) -> str:
        """Show that there is something, and no more."""
        return "<hidden>"
