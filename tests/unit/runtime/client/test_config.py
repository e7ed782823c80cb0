"""Kubeconfigs, pods and credentials: what is accepted, and that every refusal names file, entry and cause."""

import asyncio
import base64
import json
import os
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from magos.errors import ConfigurationError
from magos.runtime.client.config import ConnectionConfig, in_cluster, load_config
from magos.runtime.client.credentials import (
    LEEWAY_SECONDS,
    REREAD_SECONDS,
    Anonymous,
    CredentialError,
    ExecPlugin,
    StaticToken,
    TokenFile,
)
from magos.runtime.client.tls import TlsMaterial, TlsSource, client_context


class SetClock:
    """Clocks that stand until they are moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


def document(user: dict[str, Any] | None = None, **cluster: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "preferences": {},
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
        ],
    }


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def load(path: Path, context: str = "", **environ: str) -> ConnectionConfig:
    return load_config(str(path), context, environ=environ, clock=SetClock())


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


def plugin(tmp_path: Path, body: str) -> dict[str, Any]:
    """Write an exec plugin in Python that appends a line to ``runs`` each time, and return the user that runs it."""
    script = tmp_path / "plugin"
    script.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nopen({str(tmp_path / 'runs')!r}, 'a').write('x')\n{body}\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./plugin",
            "args": ["--cluster", "c"],
            "env": [{"name": "EXTRA", "value": "e"}],
            "installHint": "install it with care",
            "provideClusterInfo": True,
            "interactiveMode": "Never",
        }
    }


ANSWER = """
info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])
assert info['spec']['cluster']['server'].startswith('https://') and not info['spec']['interactive']
runs = os.path.getsize(os.path.join(os.path.dirname(sys.argv[0]), 'runs'))
token = ' '.join([os.environ['EXTRA'], os.environ['INHERITED'], *sys.argv[1:], str(runs)])
print(json.dumps({'kind': 'ExecCredential', 'apiVersion': info['apiVersion'],
                  'status': {'token': token, 'expirationTimestamp': '2026-01-01T00:10:00Z'}}))
"""


def test_an_exec_plugin_runs_once_for_all_and_again_before_it_expires(tmp_path: Path) -> None:
    clock = SetClock()
    path = write(tmp_path / "config", document(plugin(tmp_path, ANSWER)))
    environ = {"INHERITED": "i", "PATH": os.environ["PATH"]}
    config = load_config(str(path), environ=environ, clock=clock)

    async def main() -> None:
        found = await asyncio.gather(*(config.credentials.current() for _ in range(3)))
        assert {each.token for each in found} == {"e i --cluster c 1"}
        clock.seconds = 600 - LEEWAY_SECONDS - 1
        assert (await config.credentials.current()).token.endswith("1")
        clock.seconds += 1
        assert (await config.credentials.current()).token.endswith("2")

    asyncio.run(main())


def test_a_credential_that_cannot_be_renewed_is_used_as_long_as_it_is_good(tmp_path: Path) -> None:
    clock = SetClock()
    once = f"""
if os.path.getsize({str(tmp_path / "runs")!r}) > 1: sys.exit('no session')
print(json.dumps({{'kind': 'ExecCredential', 'apiVersion': 'client.authentication.k8s.io/v1',
                  'status': {{'token': 'good', 'expirationTimestamp': '2026-01-01T00:00:40Z'}}}}))
"""
    config = load_config(
        str(write(tmp_path / "config", document(plugin(tmp_path, once)))), environ=dict(os.environ), clock=clock
    )

    def runs() -> int:
        return (tmp_path / "runs").stat().st_size

    async def main() -> None:
        # It lives for less than the usual leeway: half of its life it is left alone.
        for seconds, count in ((0, 1), (19, 1), (20, 2), (29, 2), (30, 3), (39, 3)):
            clock.seconds = seconds
            assert (await config.credentials.current()).token == "good"
            assert runs() == count
        clock.seconds = 40
        with pytest.raises(CredentialError, match="no session"):
            await config.credentials.current()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.stderr.write('no session'); sys.exit(3)", "ended with 3: no session"),
        ("print('hello')", "did not print an ExecCredential"),
        ("print(json.dumps({'kind': 'x', 'apiVersion': 'y', 'status': {}}))", "neither a token nor a certificate"),
    ],
)
def test_a_failing_exec_plugin_says_why(tmp_path: Path, body: str, words: str) -> None:
    config = load(write(tmp_path / "config", document(plugin(tmp_path, body))))
    with pytest.raises(CredentialError, match=words):
        asyncio.run(config.credentials.current())


def test_a_missing_exec_plugin_gives_its_install_hint(tmp_path: Path) -> None:
    user = plugin(tmp_path, "")
    (tmp_path / "plugin").unlink()
    config = load(write(tmp_path / "config", document(user)))
    with pytest.raises(CredentialError, match="install it with care"):
        asyncio.run(config.credentials.current())


def test_an_exec_plugin_may_give_a_client_certificate(tmp_path: Path) -> None:
    body = """
print(json.dumps({'kind': 'ExecCredential', 'apiVersion': 'client.authentication.k8s.io/v1',
                  'status': {'clientCertificateData': 'cert', 'clientKeyData': 'key'}}))
"""
    config = load(write(tmp_path / "config", document(plugin(tmp_path, body))))
    assert isinstance(config.credentials, ExecPlugin)
    found = asyncio.run(config.credentials.current())
    assert (found.token, found.certificate, found.key) == ("", b"cert", b"key")
    assert asyncio.run(Anonymous().current()).token == ""


def test_unusable_certificates_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not PEM"):
        client_context(TlsMaterial(authority=b"nonsense"))
    ca = trustme.CA()
    with pytest.raises(ConfigurationError, match="do not fit together"):
        client_context(TlsMaterial(authority=ca.cert_pem.bytes(), certificate=ca.cert_pem.bytes(), key=b""))
    with pytest.raises(ConfigurationError, match="cannot read the client key"):
        TlsSource(key=tmp_path / "none").load()


def test_loading_configuration_does_not_import_the_generated_client(tmp_path: Path) -> None:
    write(tmp_path / "config", document({"token": "t"}))
    code = (
        "import sys; from magos.runtime.client.config import load_config; import magos.runtime.client.http\n"
        f"load_config({str(tmp_path / 'config')!r}, environ={{}})\n"
        "import json; print(json.dumps([m for m in sys.modules if m.startswith(('kubernetes_asyncio', 'aiohttp'))]))"
    )

    async def main() -> bytes:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
        return (await process.communicate())[0]

    assert json.loads(asyncio.run(main())) == []
