"""Quantities of Kubernetes, as an administrator writes sizes of volumes."""

import re
from typing import Final

_QUANTITY: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[EPTGMk]i?|Ki|e[0-9]+)?", re.ASCII)


def is_size(text: str) -> bool:
    """True if ``text`` is a quantity of bytes that is more than nothing."""
    number = text.partition("e")[0]
    return _QUANTITY.fullmatch(text) is not None and any(digit in number for digit in "123456789")
