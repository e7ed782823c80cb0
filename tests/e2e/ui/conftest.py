"""One server and one browser for all tests of the pages."""

from collections.abc import Iterator

import pytest
from selenium import webdriver

from tests.e2e.ui.browser import MISSING, Site, browser, resize, site


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """The browser."""
    if MISSING:
        pytest.skip(MISSING)
    with browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def pages(chrome: webdriver.Chrome) -> Iterator[Site]:
    """A server of its own for each test that changes something, and a browser that has forgotten the last."""
    with site() as served:
        resize(chrome, 1280, "dark")
        chrome.get_log("browser")  # type: ignore[no-untyped-call]
        yield served
        chrome.get("about:blank")
        chrome.delete_all_cookies()
