"""Chromium in front of the pages, and the server that it looks at."""

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from magos.local.ports import free_ports
from tests.pages.house import House

__all__ = ["MISSING", "Site", "browser", "resize", "site"]

_CHROMIUM, _DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = "" if _CHROMIUM and _DRIVER else "chromium and chromedriver are not installed (scripts/install-test-servers)"
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


class Site:
    """The running server."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.house: House
        self._port = port
        self._loop: asyncio.AbstractEventLoop
        self._ready = threading.Event()
        self._server: uvicorn.Server
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def start(self) -> None:
        """Return once it answers."""
        self._thread.start()
        if not self._ready.wait(30):
            raise TimeoutError("the pages are not served")

    def stop(self) -> None:
        """End it, with every open stream."""
        self._loop.call_soon_threadsafe(self.house.server.end_streams)
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(20)

    def run(self, made: Callable[[House], Coroutine[Any, Any, Any]]) -> Any:
        """Run a coroutine beside the server and return its result."""
        return asyncio.run_coroutine_threadsafe(made(self.house), self._loop).result(20)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.house = House(base_url=self.base)
        config = uvicorn.Config(
            self.house.server.app, host="127.0.0.1", port=self._port, log_level="error", lifespan="off", ws="none"
        )
        self._server = uvicorn.Server(config)
        async with self.house.running():
            serving = asyncio.create_task(self._server.serve())
            while not self._server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
            self._ready.set()
            await serving


@contextmanager
def site() -> Iterator[Site]:
    """Serve the pages around a block."""
    made = Site(free_ports(1)[0])
    made.start()
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def browser(profile: Path) -> Iterator[webdriver.Chrome]:
    """Open a browser with a new profile around a block."""
    options = Options()
    options.binary_location = _CHROMIUM or ""
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(_DRIVER or "", log_output=os.devnull))
    try:
        yield driver
    finally:
        driver.quit()


def resize(driver: webdriver.Chrome, width: int, theme: str) -> None:
    """Look at pages on a screen of this width, in a theme of the system."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 720}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": theme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
