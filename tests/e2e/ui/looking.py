"""What a test does with a browser: wait, find, press keys, and read what the browser has noted."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

__all__ = ["foreign", "keys", "noted", "one", "requested", "shows", "until"]


def until(chrome: webdriver.Chrome, true: Callable[[webdriver.Chrome], Any], *, within: float = 10) -> Any:
    """Return what ``true`` says once it says something; what it looks at may come, go and be replaced meanwhile."""
    ignored = (NoSuchElementException, StaleElementReferenceException)
    return WebDriverWait(chrome, within, 0.05, ignored_exceptions=ignored).until(true)


def one(chrome: webdriver.Chrome, selector: str) -> WebElement:
    """Return the first element of a selector."""
    return chrome.find_element(By.CSS_SELECTOR, selector)


def shows(chrome: webdriver.Chrome, selector: str, text: str, *, within: float = 10) -> str:
    """Wait until an element has ``text`` in it and return all of its text."""
    found = ""

    def has(it: webdriver.Chrome) -> bool:
        nonlocal found
        found = one(it, selector).text
        return text in found

    try:
        until(chrome, has, within=within)
    except TimeoutException as error:
        raise AssertionError(f"{selector} at {chrome.current_url} shows {found!r} and not {text!r}") from error
    return found


def keys(chrome: webdriver.Chrome, *pressed: str) -> None:
    """Press keys where the focus is."""
    for key in pressed:
        chrome.switch_to.active_element.send_keys(key)


def noted(chrome: webdriver.Chrome, kind: str) -> list[dict[str, Any]]:
    """Return what the browser has noted since the last call."""
    found: list[dict[str, Any]] = chrome.get_log(kind)  # type: ignore[no-untyped-call]
    return found


def requested(chrome: webdriver.Chrome) -> set[str]:
    """Return what the browser has asked for since the last call."""
    found = set()
    for entry in noted(chrome, "performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.add(message["params"]["request"]["url"])
    return found


def foreign(chrome: webdriver.Chrome, base: str) -> set[str]:
    """Return the hosts that the browser has asked since the last call and that are not the server's own."""
    hosts = {urlsplit(url).netloc for url in requested(chrome) if url.startswith(("http", "ws"))}
    return hosts - {urlsplit(base).netloc}
