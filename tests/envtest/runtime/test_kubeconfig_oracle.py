"""Our kubeconfig reader against kubernetes-asyncio's: where both can read a file, they agree.

The library is the oracle here and not the reader in the product, because importing any part of it imports its generated
client. It runs in a process of its own, so that its import costs only this test.
"""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import trustme
import yaml

from magos.runtime.client.config import load_config

_ORACLE = """
import asyncio, json, pathlib, sys
from kubernetes_asyncio import client, config

async def read_one(file):
    found = client.Configuration()
    await config.load_kube_config(config_file=file, client_configuration=found)
    def read(path):
        return pathlib.Path(path).read_text() if path else ""
    token = await found.get_api_key_with_prefix("BearerToken") or ""
    return {
        "server": found.host, "verify": found.verify_ssl, "token": token.removeprefix("Bearer "),
        "authority": read(found.ssl_ca_cert), "certificate": read(found.cert_file), "key": read(found.key_file),
    }

async def main():
    print(json.dumps([await read_one(file) for file in sys.argv[1:]]))

asyncio.run(main())
"""

_PLUGIN = """\
#!/bin/sh
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "from-plugin"}}'
"""


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def users(folder: Path) -> dict[str, dict[str, Any]]:
    authority = trustme.CA()
    issued = authority.issue_cert("user@example.org")
    certificate = issued.cert_chain_pems[0].bytes().decode()
    key = issued.private_key_pem.bytes().decode()
    (folder / "token").write_text("from-file")
    (folder / "client.crt").write_text(certificate)
    (folder / "client.key").write_text(key)
    plugin = folder / "plugin"
    plugin.write_text(_PLUGIN)
    plugin.chmod(0o755)
    return {
        "token": {"token": "inline"},
        "token-file": {"tokenFile": str(folder / "token")},
        "certificate-data": {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)},
        "certificate-files": {"client-certificate": "client.crt", "client-key": "client.key"},
        "exec": {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": str(plugin),
                "interactiveMode": "Never",
            }
        },
    }


def ours(path: Path) -> dict[str, Any]:
    config = load_config(str(path), environ={"PATH": "/usr/bin:/bin"})
    material = config.tls.load()
    token = anyio.run(config.credentials.current).token
    return {
        "server": config.server,
        "verify": material.verify,
        "token": token,
        "authority": material.authority.decode(),
        "certificate": material.certificate.decode(),
        "key": material.key.decode(),
    }


def kubeconfig(folder: Path, kind: str, user: dict[str, Any], authority: str) -> Path:
    cluster = {"server": "https://127.0.0.1:6443", "certificate-authority-data": encoded(authority)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path = folder / f"{kind}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_both_readers_agree(tmp_path: Path) -> None:
    authority = trustme.CA().cert_pem.bytes().decode()
    paths = {kind: kubeconfig(tmp_path, kind, user, authority) for kind, user in users(tmp_path).items()}
    command = [sys.executable, "-c", _ORACLE, *map(str, paths.values())]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    theirs = dict(zip(paths, json.loads(answer.stdout), strict=True))
    assert {kind: ours(path) for kind, path in paths.items()} == theirs
    assert {found["token"] for found in theirs.values()} == {"inline", "from-file", "from-plugin", ""}
