"""Sealed copies: nobody changes them, their digest is that of what they hold, and children can read them."""

import io
import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magos.ids import digest_of
from magos.runner import sealed as module
from magos.runner.sealed import sealed


@given(st.binary(max_size=5000))
def test_the_copy_and_its_digest_are_those_of_the_source(content: bytes) -> None:
    with sealed(io.BytesIO(content), "x") as copy, copy.opened() as stream:
        assert stream.read() == content
        assert copy.digest == digest_of(content)


def test_no_permissions_allow_a_change_of_a_sealed_copy() -> None:
    """As root, who may open everything."""
    with sealed(io.BytesIO(b"honest"), "x") as copy:
        os.fchmod(copy.descriptor, 0o666)
        writing = os.open(copy.path, os.O_RDWR)
        try:
            for act in (
                lambda: os.write(writing, b"evil"),
                lambda: os.ftruncate(writing, 0),
                lambda: os.ftruncate(writing, 100),
                lambda: os.truncate(copy.path, 0),
            ):
                with pytest.raises(PermissionError):
                    act()
        finally:
            os.close(writing)
        with copy.opened() as stream:
            assert stream.read() == b"honest"


def test_a_child_reads_it_by_its_path_if_it_inherits_it_and_no_other_does() -> None:
    with sealed(io.BytesIO(b"honest"), "x") as copy:
        read = ["cat", copy.path]
        inheriting = subprocess.run(read, pass_fds=(copy.descriptor,), capture_output=True, check=True)
        assert inheriting.stdout == b"honest"
        assert subprocess.run(read, capture_output=True, check=False).returncode != 0


def test_what_is_too_large_for_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 5)
    with pytest.raises(OSError, match="more than 5 bytes"), sealed(io.BytesIO(b"123456"), "x"):
        pass
