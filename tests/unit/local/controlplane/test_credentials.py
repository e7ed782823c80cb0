"""Certificates, keys and kubeconfigs: who may read them, and whom they let in."""

import ssl
import stat
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import httpx
import pytest
import yaml

from magos.local.controlplane.credentials import Authority, kubeconfig_text
from magos.local.servers.loopback import LoggedHandler, RequestLog, StaticServer, serving


class _Handler(LoggedHandler, SimpleHTTPRequestHandler):
    log = RequestLog()


def test_every_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    authority.issue("server", "127.0.0.1")
    authority.service_account_key()
    authority.token_file()
    files = sorted((tmp_path / "pki").iterdir())
    assert [file.name for file in files] == ["ca.crt", "server.crt", "server.key", "service-account.key", "tokens.csv"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700


def test_a_restart_keeps_the_key_of_service_account_tokens_and_makes_new_tokens(tmp_path: Path) -> None:
    first, second = Authority(tmp_path), Authority(tmp_path)
    key = first.service_account_key().read_bytes()
    tokens = first.token_file()[1]
    assert second.service_account_key().read_bytes() == key
    assert set(second.token_file()[1].values()).isdisjoint(tokens.values())


def test_a_server_of_the_authority_accepts_only_clients_with_its_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    client = authority.issue("client", "127.0.0.1", common_name="kube-apiserver")
    server = StaticServer(("127.0.0.1", 0), partial(_Handler, directory=str(tmp_path)))
    server.socket = authority.server_context("logs", "127.0.0.1").wrap_socket(server.socket, server_side=True)
    url = f"https://127.0.0.1:{server.server_port}/"
    trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    with serving(server, "tls"):
        with pytest.raises((httpx.ConnectError, httpx.ReadError)):
            httpx.get(url, verify=trust)
        trust.load_cert_chain(client.certificate, client.key)
        assert httpx.get(url, verify=trust).status_code == 200


def test_a_kubeconfig_carries_its_authority_and_token(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    text = kubeconfig_text(
        url="https://127.0.0.1:1", authority_pem=authority.certificate_pem, user="u", token="t", namespace="n"
    )
    config = yaml.safe_load(text)
    [context] = config["contexts"]
    assert config["current-context"] == context["name"]
    assert context["context"] == {"cluster": "magos", "user": "u", "namespace": "n"}
    assert config["users"] == [{"name": "u", "user": {"token": "t"}}]
