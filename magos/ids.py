"""Identifiers that must not be mixed up: run IDs, commit IDs and content digests.

Each is a ``NewType`` over ``str`` with one checked constructor, so that a value of the type is always well formed.
"""

import hashlib
import re
from datetime import datetime
from typing import NewType

RunID = NewType("RunID", str)
"""``YYYYMMDDTHHMMSS-<8 hex>``: UTC time of minting and four random bytes."""

GitSHA = NewType("GitSHA", str)
"""A commit ID: 40 lower-case hexadecimal digits."""

Digest = NewType("Digest", str)
"""``sha256:`` followed by 64 lower-case hexadecimal digits."""

_RUN_ID = re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}", re.ASCII)
_SHA = re.compile(r"[0-9a-f]{40}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


def mint_run_id(now: datetime, entropy: bytes) -> RunID:
    """Return the run ID for the UTC time ``now`` and exactly four random bytes."""
    if len(entropy) != 4:
        raise ValueError(f"a run ID needs 4 random bytes, got {len(entropy)}")
    return RunID(f"{now:%Y%m%dT%H%M%S}-{entropy.hex()}")


def parse_run_id(text: str) -> RunID:
    """Return ``text`` as a run ID or raise ``ValueError``."""
    if not _RUN_ID.fullmatch(text):
        raise ValueError(f"{text!r} is not a run ID (YYYYMMDDTHHMMSS-<8 hex>)")
    return RunID(text)


def is_git_sha(text: str) -> bool:
    """Tell whether ``text`` is a full commit ID."""
    return _SHA.fullmatch(text) is not None


def git_sha(text: str) -> GitSHA:
    """Return ``text`` as a commit ID or raise ``ValueError``."""
    if not is_git_sha(text):
        raise ValueError(f"{text!r} is not a full commit ID (40 lower-case hexadecimal digits)")
    return GitSHA(text)


def parse_digest(text: str) -> Digest:
    """Return ``text`` as a digest or raise ``ValueError``."""
    if not _DIGEST.fullmatch(text):
        raise ValueError(f"{text!r} is not a digest (sha256:<64 hex>)")
    return Digest(text)


def digest_of(content: bytes) -> Digest:
    """Return the SHA-256 digest of ``content``."""
    return Digest("sha256:" + hashlib.sha256(content).hexdigest())


def short_hash(text: str, length: int) -> str:
    """Return the first ``length`` hexadecimal digits of SHA-256 over ``text``: the suffix of object names and keys."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]
