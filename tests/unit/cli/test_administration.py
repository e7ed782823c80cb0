"""Secrets of an installation: hashes that verify, values that are random, and nothing that is overwritten."""

import base64
import json
import sys

import bcrypt
import pytest
import yaml

from magos.api.kube import SECRETS
from magos.cli.administration import fresh_secrets, hashed
from magos.errors import ConfigurationError
from tests.unit.cli.shop import Shop


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let bcrypt cost little; returns what it was asked to cost."""
    asked: list[int] = []
    salt = bcrypt.gensalt

    def cheap_salt(rounds: int) -> bytes:
        asked.append(rounds)
        return salt(4)

    monkeypatch.setattr("bcrypt.gensalt", cheap_salt)
    return asked


def test_a_password_is_read_from_standard_input_and_hashed_at_cost_12(shop: Shop, cheap: list[int]) -> None:
    printed = shop("hash-password", given="pässword with blanks \n").out
    assert cheap == [12]
    assert bcrypt.checkpw("pässword with blanks ".encode(), printed.strip().encode())
    assert shop("hash-password", "secret").code == 2, "a password is never an argument"


def test_a_password_that_bcrypt_would_cut_or_that_is_none_is_refused(shop: Shop) -> None:
    for given in ("", "\n", "ü" * 37, "a\0b"):
        ended = shop("hash-password", given=given)
        assert ended.code == 2
        assert not ended.out
    assert hashed("ü" * 36)
    with pytest.raises(ConfigurationError, match="at most 72 bytes"):
        hashed("a" * 73)


def test_an_installation_without_bcrypt_says_how_to_get_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bcrypt", None)
    ended = shop("hash-password", given="secret\n")
    assert (ended.code, "pip install 'magos[server]'" in ended.err) == (1, True)


def test_secrets_have_the_keys_and_lengths_of_the_specification_and_are_new_each_time() -> None:
    first, second = fresh_secrets(), fresh_secrets()
    assert {name: list(values) for name, values in first.items()} == {
        "magos-api": ["adminPassword", "adminPasswordHash", "tokenSigningKey", "sessionSigningKey"],
        "magos-postgres": ["password"],
        "magos-rustfs": ["accessKey", "secretKey"],
    }
    assert (len(first["magos-rustfs"]["accessKey"]), len(first["magos-rustfs"]["secretKey"])) == (20, 40)
    assert all(len(first["magos-api"][key]) >= 32 for key in ("tokenSigningKey", "sessionSigningKey"))
    api = first["magos-api"]
    assert bcrypt.checkpw(api["adminPassword"].encode(), api["adminPasswordHash"].encode())
    values = [value for each in (first, second) for keys in each.values() for value in keys.values()]
    assert len(set(values)) == len(values)


def test_missing_secrets_are_created_and_existing_ones_are_left_as_they_are(shop: Shop) -> None:
    mine = {"metadata": {"name": "magos-postgres", "namespace": "team-a"}, "data": {"password": "bWluZQ=="}}
    shop.server.create(shop.server.resource(SECRETS), mine)
    ended = shop("bootstrap-secrets", "-n", "team-a")
    assert ended.out.splitlines() == [
        "Secret team-a/magos-api is created.",
        "Secret team-a/magos-postgres exists and is left as it is.",
        "Secret team-a/magos-rustfs is created.",
    ]
    kept = shop.server.store.get(shop.server.resource(SECRETS), ("team-a", "magos-postgres"))
    assert kept is not None
    assert base64.b64decode(kept["data"]["password"]) == b"mine"
    before = shop.server.store.get(shop.server.resource(SECRETS), ("team-a", "magos-api"))
    assert shop("bootstrap-secrets", "-n", "team-a").out.count("left as it is") == 3
    assert shop.server.store.get(shop.server.resource(SECRETS), ("team-a", "magos-api")) == before


def test_printed_manifests_can_be_applied_and_touch_no_cluster(shop: Shop) -> None:
    documents = list(yaml.safe_load_all(shop("bootstrap-secrets", "--print", "-n", "x").out))
    assert [each["metadata"]["name"] for each in documents] == ["magos-api", "magos-postgres", "magos-rustfs"]
    assert all(each["kind"] == "Secret" and each["metadata"]["namespace"] == "x" for each in documents)
    listed = json.loads(shop("bootstrap-secrets", "--print", "-o", "json").out)
    assert "namespace" not in listed["items"][0]["metadata"]
    assert shop.targets == []
