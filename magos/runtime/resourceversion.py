"""Order of resourceVersions: decimal numbers without sign or leading zero, comparable within one resource only.

Source: Kubernetes KEP-5504 (comparable resource versions). Texts that do not have this form compare as equal to
everything, so that a server with opaque versions makes callers trust what they hold and never wait for ever.
"""


def is_older(version: str, than: str) -> bool:
    """Tell whether ``version`` is known to be older than ``than``; an empty version is older than every other."""
    if not than:
        return False
    if not version:
        return True
    if not (_is_comparable(version) and _is_comparable(than)):
        return False
    return (len(version), version) < (len(than), than)


def _is_comparable(version: str) -> bool:
    return version.isascii() and version.isdecimal() and version[0] != "0"
