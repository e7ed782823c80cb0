"""PgBouncer in transaction mode in front of the PostgreSQL server of the tests, with TLS for its clients."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
import trustme

from magos.local.ports import free_ports
from magos.local.processes import ProcessSpec, running
from magos.local.servers.postgres import Login, unprivileged

__all__ = ["pooler", "pooler_program"]


def pooler_program() -> str:
    """Return the path of pgbouncer, or skip the test."""
    found = shutil.which("pgbouncer", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip("pgbouncer is not installed, and scripts/install-test-servers may install it only as root")
    return found


@asynccontextmanager
async def pooler(folder: Path, login: Login, authority: trustme.CA) -> AsyncIterator[int]:
    """Run a pooler that shares two connections among all clients; yields its port.

    It is another user's process (PgBouncer refuses to be root's), so what it reads is open to all.
    """
    program = pooler_program()
    port = free_ports(1)[0]
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(str(folder / "server.crt"))
    certificate.private_key_pem.write_to_path(str(folder / "server.key"))
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"""
[databases]
* = host={login.host} port={login.port} user={login.username} password={login.password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
client_tls_sslmode = allow
client_tls_key_file = {folder}/server.key
client_tls_cert_file = {folder}/server.crt
"""
    )
    for file in (config, folder / "server.crt", folder / "server.key"):
        file.chmod(0o644)
    spec = ProcessSpec(
        name="pgbouncer", argv=unprivileged([program, str(config)], folder), log_file=folder / "log" / "pgbouncer.log"
    )

    async def listens() -> bool:
        try:
            await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
        except OSError:
            return False
        return True

    async with running(spec) as child:
        await child.wait_until_ready(listens, 10)
        yield port
