"""A password is checked beside the loop, by few threads, and a disabled account costs what a wrong password costs."""

import asyncio

import bcrypt
import pytest

from magos.server.auth.passwords import THREADS, WAITING, Passwords
from magos.server.problems import Problem
from tests.unit.server.auth.world import PASSWORD, settings


def right(password: str, **environ: str) -> bool:
    passwords = Passwords(settings(**environ).admin)
    try:
        return asyncio.run(passwords.is_right(password))
    finally:
        passwords.close()


def test_only_the_password_is_right() -> None:
    assert right(PASSWORD)
    for wrong in ("", "x", PASSWORD + "x", PASSWORD + "\0", "\udcff", "é" * 100):
        assert not right(wrong)


def test_what_is_beyond_72_bytes_is_not_looked_at_and_never_fails() -> None:
    long = "p" * 72
    known = bcrypt.hashpw(long.encode(), bcrypt.gensalt(4)).decode()
    assert right(long + "tail", ADMIN_ACCOUNT_PASSWORD_HASH=known)
    assert not right("q" * 500, ADMIN_ACCOUNT_PASSWORD_HASH=known)


def test_a_disabled_account_is_checked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[bytes] = []
    original = bcrypt.checkpw

    def checkpw(password: bytes, hashed: bytes) -> bool:
        checked.append(hashed)
        return original(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", checkpw)
    assert not right(PASSWORD, ADMIN_ACCOUNT_ENABLED="false")
    assert not right(PASSWORD, ADMIN_ACCOUNT_PASSWORD_HASH="")
    assert len(checked) == 2


def test_guesses_side_by_side_are_bounded() -> None:
    passwords = Passwords(settings().admin)

    async def main() -> list[object]:
        tries = (passwords.is_right("x") for _ in range(100))
        return list(await asyncio.gather(*tries, return_exceptions=True))

    answers = asyncio.run(main())
    passwords.close()
    refused = [answer for answer in answers if isinstance(answer, Problem)]
    assert len(refused) == 100 - THREADS - WAITING
    assert {problem.status for problem in refused} == {429}
