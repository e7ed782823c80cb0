"""The pages of the real API server in a real browser: somebody logs in, reads a plan, approves it and watches it."""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from magos.api.phases import Phase
from magos.local.machine import Extras
from tests.e2e.onemachine import OneMachine
from tests.e2e.talking import PRINTED, Talking
from tests.e2e.ui.browser import resize
from tests.e2e.ui.looking import foreign, noted, one, shows, until

_PATIENCE = 60
_SEEN = """
window.seen = [];
new MutationObserver((changes) => {
  for (const change of changes) for (const added of change.addedNodes) {
    const found = /printed at (\\d+)/.exec(added.classList?.contains("ln") ? added.textContent : "");
    if (found) window.seen.push(Date.now() - Number(found[1]));
  }
}).observe(document, {childList: true, subtree: true});
"""
"""Notes how long each line was on its way."""


class Pages:
    """The real server in the browser."""

    def __init__(self, here: OneMachine, chrome: webdriver.Chrome) -> None:
        self.chrome = chrome
        assert here.here.extras is not None
        self.extras: Extras = here.here.extras
        self.base = self.extras.api.url

    def open(self, path: str) -> None:
        """Go to a page."""
        self.chrome.get(self.base + path)

    def press(self, selector: str) -> None:
        """Click on something."""
        one(self.chrome, selector).click()

    def shows(self, selector: str, text: str, *, within: float = 10) -> str:
        """Wait until there is a text, and return all of the element's."""
        return shows(self.chrome, selector, text, within=within)

    def enter(self, password: str) -> None:
        """Fill in the form on which one logs in."""
        one(self.chrome, "#password").send_keys(password)
        self.press(".door form button")

    @property
    def complaints(self) -> list[str]:
        """What the browser has complained about since the last look."""
        return [each["message"] for each in noted(self.chrome, "browser")]

    @contextmanager
    def staying(self) -> Iterator[None]:
        """Assert that the page is not loaded again in the block: what changes changes by itself."""
        self.chrome.execute_script("window.stayed = true")
        yield
        assert self.chrome.execute_script("return window.stayed === true")


@pytest.fixture
def pages(equipped: OneMachine, chrome: webdriver.Chrome) -> Iterator[Pages]:
    """A browser that has forgotten the last test; it complains about nothing and asks nobody else."""
    resize(chrome, 1280, "dark")
    for kind in ("browser", "performance"):
        noted(chrome, kind)
    found = Pages(equipped, chrome)
    yield found
    assert foreign(chrome, found.base) == set()
    assert found.complaints == []
    chrome.get("about:blank")
    chrome.delete_all_cookies()


@pytest.fixture
def entered(pages: Pages) -> Pages:
    """The administrator is logged in."""
    pages.open("/login")
    pages.enter(pages.extras.api.password)
    pages.shows(".who", "admin")
    return pages


def test_the_password_opens_the_page_that_was_asked_for_and_logging_out_closes_it(pages: Pages) -> None:
    chrome = pages.chrome
    pages.open("/workspaces?view=rows")
    assert "/login?return=" in chrome.current_url
    pages.enter("wrong")
    pages.shows("[role=alert]", "login failed")
    assert [each for each in pages.complaints if " 403 " not in each] == []
    pages.enter(pages.extras.api.password)
    until(chrome, lambda it: it.current_url == f"{pages.base}/workspaces?view=rows")

    ground = "return getComputedStyle(document.documentElement).backgroundColor"
    before = chrome.execute_script(ground)
    pages.press("[data-theme-toggle]")
    chosen = chrome.execute_script(ground)
    assert chosen != before
    pages.open("/settings")
    assert chrome.execute_script(ground) == chosen

    pages.press(".who button")
    until(chrome, lambda it: it.current_url == f"{pages.base}/login")
    pages.open("/workspaces")
    assert "/login?return=" in chrome.current_url


def _rollout(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "magosproject.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {
            "projectRef": "shop",
            "strategy": {"steps": [{"name": "only", "selector": {"matchLabels": {"stage": "only"}}}]},
        },
    }


def test_a_plan_is_read_approved_followed_line_by_line_and_applied_on_a_page_that_stays(
    equipped: OneMachine, entered: Pages
) -> None:
    pages, chrome = entered, entered.chrome
    namespace = equipped.namespace()
    talking = Talking(equipped, namespace)
    page = f"/{talking.path}"
    equipped.apply(_rollout(namespace))

    pages.open(f"/workspaces?namespace={namespace}")
    with pages.staying():
        talking.create(autoApply=False)
        pages.shows("#live .card", "talking")
        pages.shows("#live .card .badge", "Needs approval", within=_PATIENCE)
    pages.open("/")
    pages.shows(".answer", "1 waits for you")
    pages.shows("#live", "talking")

    pages.open(f"{page}?tab=plan")
    counts = [each.text for each in chrome.find_elements(By.CSS_SELECTOR, ".counts b")]
    assert counts == ["0", "0", "1"]
    pages.open(f"/rollouts/{namespace}/shop")
    pages.shows(".answer", "0 of 1 steps")
    pages.shows(".stage", "talking")

    chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _SEEN})
    pages.open(page)
    pages.press("#do-a")
    waiting = equipped.workspace(namespace, talking.name).status.awaiting_approval
    assert waiting is not None
    pages.shows("dialog .exact", waiting.run_id)
    pages.press("dialog form button:not([type])")
    until(chrome, lambda it: "dialog" not in it.current_url)
    with pages.staying():
        pages.shows("#live .console", "printed at", within=_PATIENCE)
        assert equipped.workspace(namespace, talking.name).status.phase is Phase.APPLYING
        until(chrome, lambda it: it.execute_script("return window.seen.length") >= 30, within=_PATIENCE)
        print("milliseconds from pod to page:", statistics.quantiles(chrome.execute_script("return window.seen"), n=10))
        talking.stop()
        pages.shows("#live .title .badge", "Applied", within=_PATIENCE)

    pages.press(".tabs a[href$='tab=runs']")
    pages.press("#live table a")
    pages.shows("h1", waiting.run_id)
    pages.press(".actions a[href$='phase=apply']")
    archived = pages.shows(".console.stored", "Apply complete!", within=_PATIENCE)
    assert PRINTED.search(archived)
    pages.open(f"/rollouts/{namespace}/shop")
    pages.shows(".answer", "1 of 1 steps", within=_PATIENCE)

    pages.open(page)
    pages.press("#do-r")
    pages.press("dialog form button:not([type])")
    until(chrome, lambda it: "dialog" not in it.current_url)
    with pages.staying():
        pages.shows("#live", "no changes", within=_PATIENCE)
    pages.open(f"{page}?tab=runs")
    assert len(chrome.find_elements(By.CSS_SELECTOR, "#live tbody tr")) == 2
