"""Credentials of exec plugins, which are processes: what they are told, how often they run, how they fail."""

import asyncio
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from magos.runtime.client.config import load_config
from magos.runtime.client.credentials import (
    LEEWAY_SECONDS,
    Anonymous,
    CredentialError,
    ExecPlugin,
)
from tests.unit.runtime.client.kubeconfigs import SetClock, document, load, write


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
