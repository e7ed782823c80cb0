"""Kubeconfigs, pods and credentials: what is accepted, and that every refusal names file, entry and cause."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
import trustme

from magos.errors import ConfigurationError
from magos.runtime.client.config import in_cluster, load_config
from magos.runtime.client.credentials import (
    REREAD_SECONDS,
    CredentialError,
    StaticToken,
    TokenFile,
)
from magos.runtime.client.tls import TlsMaterial, TlsSource, client_context
from tests.unit.runtime.client.kubeconfigs import SetClock, document, load, write


def test_a_token_and_an_authority_in_the_file_are_taken_as_they_are(tmp_path: Path) -> None:
    ca = base64.b64encode(b"pem").decode()
    path = write(tmp_path / "config", document({"token": "t"}, **{"certificate-authority-data": ca}))
    config = load(path)
    assert (config.server, config.namespace) == ("https://127.0.0.1:6443", "default")
    assert config.tls == TlsSource(authority=b"pem")
    assert isinstance(config.credentials, StaticToken)
    assert load(path, "there").namespace == "team"


def test_relative_paths_start_at_the_kubeconfig(tmp_path: Path) -> None:
    user = {"client-certificate": "c.crt", "client-key": "/abs/c.key", "tokenFile": "token"}
    cluster = {"certificate-authority": "ca.crt", "tls-server-name": "kubernetes", "insecure-skip-tls-verify": True}
    config = load(write(tmp_path / "config", document(user, **cluster)))
    assert config.tls == TlsSource(
        authority=tmp_path / "ca.crt",
        certificate=tmp_path / "c.crt",
        key=Path("/abs/c.key"),
        server_name="kubernetes",
        verify=False,
    )
    assert isinstance(config.credentials, TokenFile)


def test_several_files_merge_and_the_first_mention_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "a", {"current-context": "there", "users": [{"name": "u", "user": {"token": "first"}}]})
    second = write(tmp_path / "b", document({"token": "second"}))
    config = load_config(None, environ={"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"})
    assert config.namespace == "team"
    assert asyncio.run(config.credentials.current()).token == "first"


@pytest.mark.parametrize(
    ("content", "context", "words"),
    [
        ("a: [", "", "is not a kubeconfig"),
        ("[]", "", "is not a kubeconfig"),
        (document({"token": 5}), "", "is not a kubeconfig"),
        ({}, "", "no current-context"),
        (document(), "nowhere", "no context 'nowhere'; it has: here, there"),
        ({**document(), "clusters": None}, "", "names the cluster 'c', which is missing"),
        ({**document(), "users": []}, "", "names the user 'u', which is missing"),
        (document(server=""), "", "has no server"),
        (document(server="127.0.0.1"), "", "does not start with https://"),
        (document({"token": "t"}, **{"certificate-authority-data": "%%"}), "", "not base64"),
        (document({"auth-provider": {"name": "oidc"}}), "", "auth-provider, which Magos does not support"),
        (document({"username": "a", "password": "b"}), "", "username and password"),
        (document({"as": "somebody"}), "", "impersonation"),
        (document({}, **{"proxy-url": "http://p"}), "", "proxy-url"),
        (document({"exec": {"command": "x", "apiVersion": "v0"}}), "", "asks for v0; supported are"),
    ],
)
def test_a_bad_kubeconfig_is_refused_by_name(tmp_path: Path, content: Any, context: str, words: str) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(ConfigurationError) as caught:
        load(path, context)
    assert words in str(caught.value)


def test_nothing_to_connect_to_is_said_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="give --kubeconfig or set KUBECONFIG"):
        load_config(None, environ={"HOME": str(tmp_path)})
    with pytest.raises(ConfigurationError, match=r"cannot read the kubeconfig .*nope"):
        load_config(str(tmp_path / "nope"), environ={})
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", document({"token": "home"}))
    assert load_config(None, environ={"HOME": str(tmp_path)}).server == "https://127.0.0.1:6443"


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="automountServiceAccountToken"):
        in_cluster("10.0.0.1", "443", directory=tmp_path)
    for name, content in (("ca.crt", "pem"), ("token", "t\n"), ("namespace", "magos-system\n")):
        (tmp_path / name).write_text(content)
    config = in_cluster("fd00::1", "443", directory=tmp_path)
    assert (config.server, config.namespace) == ("https://[fd00::1]:443", "magos-system")
    assert config.tls == TlsSource(authority=tmp_path / "ca.crt")
    assert asyncio.run(config.credentials.current()).token == "t"


def test_a_token_file_is_read_again_after_a_while_and_after_a_rejection(tmp_path: Path) -> None:
    clock, path = SetClock(), tmp_path / "token"

    async def main() -> None:
        source = TokenFile(path, clock)
        with pytest.raises(CredentialError, match="is the token mounted"):
            await source.current()
        path.write_text("one\n")
        assert (await source.current()).token == "one"
        path.write_text("two")
        clock.seconds += REREAD_SECONDS - 1
        assert (await source.current()).token == "one"
        clock.seconds += 1
        assert (await source.current()).token == "two"
        path.write_text("three")
        source.rejected()
        assert (await source.current()).token == "three"
        path.unlink()
        clock.seconds += REREAD_SECONDS
        assert (await source.current()).token == "three"  # rotation replaces the file; a gap is no reason to stop

    asyncio.run(main())


def test_unusable_certificates_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not PEM"):
        client_context(TlsMaterial(authority=b"nonsense"))
    ca = trustme.CA()
    with pytest.raises(ConfigurationError, match="do not fit together"):
        client_context(TlsMaterial(authority=ca.cert_pem.bytes(), certificate=ca.cert_pem.bytes(), key=b""))
    with pytest.raises(ConfigurationError, match="cannot read the client key"):
        TlsSource(key=tmp_path / "none").load()
