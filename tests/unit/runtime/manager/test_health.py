"""Probes: answers as Kubernetes components give them, over a real socket too."""

import asyncio

import aiohttp
import anyio
import pytest
import structlog.testing

from magos.errors import ConfigurationError
from magos.runtime.manager.health import Health, LoopMonitor
from magos.runtime.manager.settings import Bind
from magos.runtime.manager.webserver import WebRequest, WebResponse, WebServer
from tests.sim.virtualtime import VirtualClock, run_virtual


class Checks:
    """Two checks whose answers are set by the test."""

    def __init__(self) -> None:
        self.informers = ""
        self.workers = ""
        self.health = Health(
            live={"workers": lambda: self.workers}, ready={"informers": lambda: self.informers, "broken": self.broken}
        )
        self.raises = False

    def broken(self) -> str:
        if self.raises:
            raise KeyError("secret")
        return ""

    def ask(self, path: str, *query: tuple[str, str]) -> tuple[int, str]:
        answer = asyncio.run(self.health.handle(WebRequest(path=path, query=query)))
        return answer.status, answer.body.decode()


def test_all_well_is_ok() -> None:
    checks = Checks()
    assert checks.ask("/healthz") == checks.ask("/readyz") == checks.ask("/readyz/informers") == (200, "ok")
    assert checks.ask("/healthz/ping") == (200, "ok")


def test_verbose_lists_the_checks() -> None:
    expected = "[+]ping ok\n[+]informers ok\n[+]broken ok\nreadyz check passed\n"
    assert Checks().ask("/readyz", ("verbose", "")) == (200, expected)


def test_a_failing_check_fails_its_probe_only_and_withholds_the_reason() -> None:
    checks = Checks()
    checks.informers = "caches not filled: secrets"
    with structlog.testing.capture_logs() as logs:
        status, body = checks.ask("/readyz")
        checks.ask("/readyz")
        assert checks.ask("/readyz/informers")[0] == 500
        checks.informers = ""
        checks.ask("/readyz")
    assert status == 500
    assert "[-]informers failed: reason withheld" in body
    assert "secrets" not in body
    assert checks.ask("/healthz") == (200, "ok")
    assert [(log["event"], log.get("problem")) for log in logs] == [
        ("health check fails", "caches not filled: secrets"),
        ("health check passes again", None),
    ]


def test_a_check_that_raises_has_failed() -> None:
    checks = Checks()
    checks.raises = True
    with structlog.testing.capture_logs():
        assert checks.ask("/readyz/broken")[0] == 500


def test_checks_can_be_left_out_and_unknown_ones_are_told() -> None:
    checks = Checks()
    checks.informers = "empty"
    status, body = checks.ask("/readyz", ("exclude", "informers"), ("exclude", "nonsense"), ("verbose", ""))
    assert status == 200
    assert "[+]informers excluded: ok" in body
    assert "no matches for nonsense" in body


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz/nope", "/readyz/informers/x", "/healthzz"])
def test_other_paths_do_not_exist(path: str) -> None:
    assert Checks().ask(path)[0] == 404


def test_the_monitor_measures_lag_and_notices_when_the_loop_stands_still() -> None:
    async def main() -> None:
        clock = VirtualClock()
        monitor = LoopMonitor(clock)
        async with anyio.create_task_group() as group:
            group.start_soon(monitor.run)
            await asyncio.sleep(20.25)
            assert (monitor.problem(), monitor.lag) == ("", 0)
            clock.suspend(12)
            assert "has not run" in monitor.problem()
            with structlog.testing.capture_logs() as logs:
                await asyncio.sleep(0.3)
            assert monitor.problem() == ""
            assert logs[0]["seconds"] == 12
            group.cancel_scope.cancel()

    run_virtual(main)


def test_the_server_answers_over_a_socket_and_refuses_writes() -> None:
    async def handle(request: WebRequest) -> WebResponse:
        if request.path == "/boom":
            raise ZeroDivisionError
        return WebResponse(body=f"{request.path} {request.query} {request.authorization}".encode())

    async def main() -> None:
        async with anyio.create_task_group() as group, aiohttp.ClientSession() as session:
            port = await group.start(WebServer(Bind("127.0.0.1", 0), handle).run)
            url = f"http://127.0.0.1:{port}"
            async with session.get(f"{url}/a?b=c", headers={"Authorization": "Bearer x"}) as response:
                assert await response.text() == "/a (('b', 'c'),) Bearer x"
            async with session.post(url) as response:
                assert response.status == 405
            with structlog.testing.capture_logs() as logs:
                async with session.get(f"{url}/boom") as response:
                    assert response.status == 500
            assert logs[0]["event"] == "request failed"
            with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
                await WebServer(Bind("127.0.0.1", port), handle).run()
            group.cancel_scope.cancel()

    asyncio.run(main())
