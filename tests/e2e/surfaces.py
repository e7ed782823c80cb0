"""Everything that history keeps and that the API server and its web UI show, by place."""

import re
from contextlib import closing
from typing import Any
from urllib.parse import urljoin

import asyncpg
import httpx

from magos.api.names import JobType
from magos.local.servers.postgres import Login
from tests.e2e.console import API, Console
from tests.e2e.onemachine import OneMachine
from tests.envtest.cluster import eventually

__all__ = ["own_secrets", "surfaces"]

_KINDS = ("projects", "workspaces", "rollouts", "variablesets")
_LINK = re.compile(r"""(?:href|src|action)=["'](/[^"'#]*)["']""")
_MOST_PAGES = 200
_STREAM_SECONDS = 3.0


def own_secrets(here: OneMachine) -> dict[str, str]:
    """Return what API server, database and bucket are entered with."""
    extras = here.here.extras
    assert extras is not None
    stores, settings = extras.stores, extras.api.process.spec.env or {}
    assert stores.postgres is not None
    assert stores.objects is not None
    return {
        "admin password": extras.api.password,
        "admin hash": settings["ADMIN_ACCOUNT_PASSWORD_HASH"],
        "token key": settings["ADMIN_ACCOUNT_TOKEN_SIGNING_KEY"],
        "session key": settings["MAGOS_SESSION_SIGNING_KEY"],
        "database password": stores.postgres.login.password,
        "bucket key": stores.objects.secret_key,
    }


def surfaces(here: OneMachine, namespace: str) -> dict[str, bytes]:
    """Return all of it for a namespace whose runs have ended; waits until history has them."""
    extras = here.here.extras
    assert extras is not None
    assert extras.stores.postgres is not None
    places: dict[str, bytes] = {}
    with Console(here) as console:
        for workspace in console.get("workspaces", namespace=namespace):
            name = workspace["metadata"]["name"]
            for run in _recorded(console, namespace, name):
                for phase in JobType:
                    text = console.log(namespace, name, run["runID"], phase)
                    if text:
                        places[f"archive: {name} {phase}"] = text
            places[f"live log: {name}"] = _beginning(
                console, f"{API}/workspaces/{namespace}/{name}/runs/current/log/stream"
            )
        for kind in _KINDS:
            places[f"stream: {kind}"] = _beginning(console, f"{API}/{kind}/events")
        paths = ["/", "/login", "/settings", "/docs", "/openapi.json", f"{API}/workspaces/{namespace}/fine/runs"]
        paths += ["/api/v1alpha1/auth/whoami", "/api/v1alpha1/system/public-config"]
        paths += [f"{API}/{kind}" for kind in _KINDS]
        places |= _reachable(console, paths)
    places |= here.do(_rows, extras.stores.postgres.login)
    return places


def _recorded(console: Console, namespace: str, name: str) -> list[dict[str, Any]]:
    """Return the runs of a Workspace as soon as each of their phases has a log, or the reason why not."""

    def settled() -> bool:
        phases = [run[str(phase)] for run in console.runs(namespace, name) for phase in JobType if run.get(str(phase))]
        return all(phase.get("logKey") or phase.get("logError") for phase in phases)

    eventually(settled, within=120)
    return console.runs(namespace, name)


def _beginning(console: Console, path: str) -> bytes:
    """Return what a stream sends until it ends or is silent for a while."""
    text = b""
    try:
        with console.http.stream("GET", path, timeout=_STREAM_SECONDS) as answer:
            for chunk in answer.iter_raw():
                text += chunk
    except httpx.ReadTimeout:
        pass  # it waits for the next change
    return text


def _reachable(console: Console, paths: list[str]) -> dict[str, bytes]:
    """Return every answer that links lead to from ``paths``, headers included."""
    found: dict[str, bytes] = {}
    waiting = list(paths)
    while waiting and len(found) < _MOST_PAGES:
        path = waiting.pop()
        streams = path.endswith("/stream") or "/events" in path
        filters = "?" in path and not path.startswith(("/workspaces/", "/login"))  # the same content in another order
        if path in found or streams or filters or "logout" in path:
            continue
        with closing(console.http.get(path)) as answer:
            assert answer.status_code < 500, f"{path}: {answer.text}"
            headers = "\n".join(f"{name}: {value}" for name, value in answer.headers.items() if name != "set-cookie")
            found[path] = headers.encode() + b"\n\n" + answer.content
        if answer.is_redirect:
            waiting.append(urljoin(path, answer.headers["location"]))
        elif answer.headers.get("content-type", "").startswith("text/html"):
            waiting += (link.replace("&amp;", "&") for link in _LINK.findall(answer.text))
    return {f"page: {path}": content for path, content in found.items()}


async def _rows(login: Login) -> dict[str, bytes]:
    """Return all rows of all tables."""
    connection = await asyncpg.connect(
        host=login.host, port=login.port, user=login.username, password=login.password, database=login.database
    )
    try:
        tables = await connection.fetch("SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables "
                                        "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')")  # fmt: skip
        rows = {
            table["name"]: await connection.fetch(f"SELECT to_jsonb(t)::text AS row FROM {table['name']} AS t")  # noqa: S608
            for table in tables
        }
    finally:
        await connection.close()
    return {f"database: {name}": "\n".join(row["row"] for row in found).encode() for name, found in rows.items()}
