"""The data types of the SSH protocols that agent and keys need (RFC 4251 §5)."""


class Reader:
    """Reads values one after the other; ``ValueError`` if the bytes end too early or go on after the end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes."""
        taken = self._content[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError("the message ends too early")
        self._at += size
        return taken

    def byte(self) -> int:
        """Return the next byte."""
        return self.take(1)[0]

    def integer(self) -> int:
        """Return the next uint32."""
        return int.from_bytes(self.take(4), "big")

    def string(self) -> bytes:
        """Return the next string."""
        return self.take(self.integer())

    def end(self) -> None:
        """Insist that nothing is left."""
        if self._at != len(self._content):
            raise ValueError("the message goes on after its end")


def pack_string(content: bytes) -> bytes:
    """Return ``content`` as a string."""
    return len(content).to_bytes(4, "big") + content


def pack_integer(value: int) -> bytes:
    """Return a number that is not negative as an mpint."""
    return pack_string(value.to_bytes(value.bit_length() // 8 + 1, "big") if value else b"")
