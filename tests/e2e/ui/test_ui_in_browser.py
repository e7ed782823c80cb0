"""The pages in a real browser: they fit, load nothing from elsewhere, and can be used by keyboard and live."""

import json
import os
import subprocess
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from magos.api.annotations import APPROVED
from magos.api.rollout import ROLLOUTS
from magos.api.workspace import WORKSPACES
from tests.e2e.ui.browser import Site, resize
from tests.e2e.ui.looking import foreign, keys, noted, one, requested, until
from tests.pages import states
from tests.pages.house import House

RUN = f"/workspaces/shop/shop-dev/runs/{states.runs()[3].run_id}"
PAGES = {
    "home": "/", "workspaces": "/workspaces", "workspaces-rows": "/workspaces?view=rows&sort=status",
    "nothing-matches": "/workspaces?q=nothing", "waiting": "/workspaces/shop/shop-prod",
    "failed": "/workspaces/shop/shop-staging", "violations": "/workspaces/shop/pay-prod?tab=plan",
    "approve": "/workspaces/shop/pay-prod?dialog=approve", "reconcile": "/workspaces/shop/shop-prod?dialog=reconcile",
    "runs": "/workspaces/shop/shop-dev?tab=runs", "details": "/workspaces/shop/shop-dev?tab=details",
    "live": "/workspaces/shop/pay-dev?tab=log", "run": RUN, "log": f"{RUN}/log?phase=plan", "projects": "/projects",
    "project": "/projects/shop/shop", "rollouts": "/rollouts", "rollout": "/rollouts/shop/shop",
    "sets": "/variable-sets", "set": "/variable-sets/shop/common", "settings": "/settings", "missing": "/nothing",
}  # fmt: skip
AXE = "axe-core@4.14.1"


def _in_sync(chrome: webdriver.Chrome) -> None:
    """Wait until the page has everything that its stream begins with."""
    chrome.execute_async_script(
        "const done = arguments[0]; const source = new EventSource(document.body.dataset.live);"
        " source.addEventListener('synced', () => { source.close(); setTimeout(done, 300); });"
    )


def _complaints(chrome: webdriver.Chrome) -> list[str]:
    return [each["message"] for each in noted(chrome, "browser") if " 404 " not in each["message"]]


def test_every_page_fits_both_screens_in_both_themes_and_loads_nothing_from_elsewhere(
    pages: Site, chrome: webdriver.Chrome, tmp_path: Path
) -> None:
    folder = Path(os.environ.get("MAGOS_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    chrome.execute_cdp_cmd("Network.enable", {})
    for theme in ("dark", "light"):
        for width in (1280, 390):
            resize(chrome, width, theme)
            for name, path in PAGES.items():
                chrome.get(pages.base + path)
                wide = chrome.execute_script("return document.documentElement.scrollWidth")
                assert wide <= width, f"{name} is {wide} wide on {width}"
                chrome.save_screenshot(str(folder / f"{name}-{width}-{theme}.png"))
                assert _complaints(chrome) == [], name
                assert foreign(chrome, pages.base) == set(), name


def test_the_layout_does_not_shift_while_a_page_loads(pages: Site, chrome: webdriver.Chrome) -> None:
    observe = (
        "const done = arguments[0]; let sum = 0;"
        " const add = (list) => list.getEntries().forEach((each) => { sum += each.value; });"
        " new PerformanceObserver(add).observe({type: 'layout-shift', buffered: true});"
        " requestAnimationFrame(() => requestAnimationFrame(() => done(sum)));"
    )
    for name in ("home", "workspaces", "waiting", "runs", "log"):
        chrome.get(pages.base + PAGES[name])
        assert chrome.execute_async_script(observe) < 0.1, name


def test_keys_search_walk_open_and_go(pages: Site, chrome: webdriver.Chrome) -> None:
    chrome.get(f"{pages.base}/workspaces?view=rows")
    keys(chrome, "/")
    assert chrome.switch_to.active_element.get_attribute("name") == "q"
    keys(chrome, "pay-", Keys.ESCAPE)
    until(chrome, lambda it: len(it.find_elements(By.CSS_SELECTOR, "#live [data-row]")) == 3)
    assert "q=pay-" in chrome.current_url
    keys(chrome, "j", "j", "k")
    chosen = one(chrome, "[data-row].at .l-name").text
    keys(chrome, Keys.ENTER)
    until(chrome, lambda it: it.current_url.endswith(f"/workspaces/shop/{chosen}"))
    keys(chrome, "g", "p")
    until(chrome, lambda it: it.current_url.endswith("/projects"))
    keys(chrome, "?")
    until(chrome, lambda it: it.find_element(By.CSS_SELECTOR, "#help").is_displayed())
    keys(chrome, Keys.ESCAPE)
    until(chrome, lambda it: not it.find_element(By.CSS_SELECTOR, "#help").is_displayed())


def test_a_dialog_keeps_the_focus_and_gives_it_back(pages: Site, chrome: webdriver.Chrome) -> None:
    chrome.get(f"{pages.base}/workspaces/shop/shop-prod")
    keys(chrome, "a")
    until(chrome, lambda it: it.find_elements(By.CSS_SELECTOR, "dialog:modal[data-dialog]"))
    for _ in range(12):
        keys(chrome, Keys.TAB)
        focus = "const at = document.activeElement; return at === document.body || Boolean(at.closest('dialog'))"
        assert chrome.execute_script(focus)
    chrome.find_element(By.CSS_SELECTOR, "dialog [data-close]").send_keys(Keys.ESCAPE)
    until(chrome, lambda it: not it.find_elements(By.CSS_SELECTOR, "dialog[data-dialog]"))
    assert chrome.switch_to.active_element.get_attribute("id") == "do-a"
    assert chrome.current_url.endswith("/workspaces/shop/shop-prod")


def test_approving_needs_every_violation_and_approves_the_run_that_was_shown(
    pages: Site, chrome: webdriver.Chrome
) -> None:
    async def approved(house: House) -> str | None:
        found = await house.user.get(WORKSPACES, "shop", "pay-prod")
        return found.metadata.annotations.get(APPROVED)

    chrome.get(f"{pages.base}/workspaces/shop/pay-prod?dialog=approve")
    assert one(chrome, "dialog .counts").text.split()[:3] == ["1", "to", "destroy"]
    one(chrome, "dialog .danger").click()
    assert pages.run(approved) is None, "the browser asks for the boxes first"
    for box in chrome.find_elements(By.CSS_SELECTOR, "dialog [type=checkbox]"):
        box.click()
    one(chrome, "dialog .danger").click()
    until(chrome, lambda it: "dialog" not in it.current_url)
    assert pages.run(approved) == states.RUN


def test_a_run_that_changes_under_an_open_dialog_can_no_longer_be_approved(
    pages: Site, chrome: webdriver.Chrome
) -> None:
    other = "20261201T115900-ffffffff"

    async def change(house: House) -> None:
        gate = {"runID": other, "reason": "ManualApproval", "since": "2026-12-01T11:59:00Z"}
        status = {"awaitingApproval": gate, "currentRunID": other}
        await house.user.patch(WORKSPACES, "shop", "shop-prod", {"status": status}, subresource="status")

    chrome.get(f"{pages.base}/workspaces/shop/shop-prod?dialog=approve")
    _in_sync(chrome)
    pages.run(change)
    until(chrome, lambda it: not it.find_element(By.CSS_SELECTOR, "dialog .danger").is_enabled())
    assert other in one(chrome, "dialog .stale").text


def test_a_list_that_needs_a_login_again_leads_there_and_shows_no_nonsense(
    pages: Site, chrome: webdriver.Chrome
) -> None:
    chrome.get(f"{pages.base}/workspaces?view=rows")
    pages.house.login.closed = True
    keys(chrome, "/", "pay")
    until(chrome, lambda it: "/login?return=" in it.current_url)


def test_a_server_in_trouble_leaves_what_is_shown_and_says_so(pages: Site, chrome: webdriver.Chrome) -> None:
    chrome.get(f"{pages.base}/workspaces/shop/shop-dev?tab=runs")
    chrome.get(f"{pages.base}/workspaces?view=rows")
    pages.house.access.down = True
    keys(chrome, "/", "pay")
    until(chrome, lambda it: it.find_element(By.CSS_SELECTOR, ".lost").is_displayed())
    assert "Shown as of" in one(chrome, ".lost").text
    assert len(chrome.find_elements(By.CSS_SELECTOR, "#live [data-row]")) == len(states.WORKSPACES)


def test_a_change_appears_by_itself(pages: Site, chrome: webdriver.Chrome) -> None:
    async def fail(house: House) -> None:
        status = {"phase": "Failed", "reason": "ApplyFailed", "message": "Error: quota exceeded"}
        await house.user.patch(WORKSPACES, "shop", "shop-dev", {"status": status}, subresource="status")

    chrome.get(f"{pages.base}/workspaces/shop/shop-dev")
    _in_sync(chrome)
    pages.run(fail)
    until(chrome, lambda it: "quota exceeded" in it.find_element(By.ID, "live").text)
    assert _complaints(chrome) == []


def test_a_rollout_that_changes_alone_is_seen_too(pages: Site, chrome: webdriver.Chrome) -> None:
    async def complete(house: House) -> None:
        status = {"phase": "Applied", "message": "all that there was to promote is promoted"}
        await house.user.patch(ROLLOUTS, "shop", "shop", {"status": status}, subresource="status")

    chrome.get(f"{pages.base}/rollouts/shop/shop")
    _in_sync(chrome)
    pages.run(complete)
    until(chrome, lambda it: "is promoted" in one(it, ".answer").text)


def test_what_a_reader_has_opened_of_a_plan_stays_open_over_a_change(pages: Site, chrome: webdriver.Chrome) -> None:
    async def tell(house: House) -> None:
        await house.user.patch(
            WORKSPACES, "shop", "pay-prod", {"status": {"policiesEvaluated": 7}}, subresource="status"
        )

    chrome.get(f"{pages.base}/workspaces/shop/pay-prod?tab=plan")
    _in_sync(chrome)
    groups = chrome.find_elements(By.CSS_SELECTOR, ".changes section")
    assert groups[0].find_element(By.CSS_SELECTOR, ".diff").is_displayed()
    groups[1].find_element(By.CSS_SELECTOR, "summary").click()
    pages.run(tell)
    until(chrome, lambda it: "7 policies evaluated" in one(it, "#live").text)
    assert groups[1].find_element(By.CSS_SELECTOR, ".diff").is_displayed()


_AWAY = """
window.away = true;
Object.defineProperty(document, "hidden", {get: () => window.away});
"""
_BACK = "window.away = arguments[0]; document.dispatchEvent(new Event('visibilitychange'))"


@pytest.mark.parametrize("path", ["/workspaces", "/workspaces/shop/shop-dev", "/projects/shop/shop"])
def test_what_changed_before_the_stream_began_is_shown_and_nothing_is_fetched_twice_else(
    pages: Site, chrome: webdriver.Chrome, path: str
) -> None:
    async def fail(house: House) -> None:
        status = {"phase": "Failed", "reason": "ApplyFailed", "message": "Error: quota exceeded"}
        await house.user.patch(WORKSPACES, "shop", "shop-dev", {"status": status}, subresource="status")

    def shown_again() -> bool:
        return any(url.endswith(path) for url in requested(chrome))

    chrome.execute_cdp_cmd("Network.enable", {})
    added = chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _AWAY})
    try:
        chrome.get(pages.base + path)
        requested(chrome)
        chrome.execute_script(_BACK, False)
        _in_sync(chrome)
        chrome.execute_async_script("setTimeout(arguments[0], 300)")
        assert not shown_again(), "the page was as new as the stream"

        chrome.get(pages.base + path)
        pages.run(fail)
        requested(chrome)
        chrome.execute_script(_BACK, False)
        until(chrome, lambda _: shown_again())
        until(chrome, lambda it: "Failed" in it.find_element(By.ID, "live").text)
    finally:
        chrome.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": added["identifier"]})


_STREAM = """
class Told extends EventTarget {
  constructor(url) { super(); this.url = url; this.readyState = 1; window.told = this; }
  close() { this.readyState = 2; }
}
window.EventSource = new Proxy(window.EventSource, {
  construct: (real, [url]) => url.includes("log/stream") ? new Told(url) : new real(url),
});
"""
"""Streams of logs are told by the test."""


def _tell(chrome: webdriver.Chrome, **event: str) -> None:
    chrome.execute_script("window.told.onmessage({data: arguments[0]})", json.dumps(event))


def test_lines_of_a_live_log_appear_as_text_and_are_followed_until_somebody_scrolls(
    pages: Site, chrome: webdriver.Chrome
) -> None:
    added = chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _STREAM})
    try:
        chrome.get(f"{pages.base}/workspaces/shop/pay-dev?tab=log")
        _tell(chrome, type="status", message="waiting for the pod")
        assert one(chrome, "[data-console-state]").text == "waiting for the pod"
        for line in ("=== terraform ===", "\x1b[31mError: \x1b[0mno", "<img src=x onerror=alert(1)>\u202e\x1b[2J"):
            _tell(chrome, type="line", line=line)
        lines = chrome.find_elements(By.CSS_SELECTOR, ".console .ln")
        assert [each.get_attribute("class") for each in lines] == ["ln head", "ln error", "ln"]
        assert one(chrome, "#L2 .a-f1").text.strip() == "Error:"
        assert one(chrome, "#L3 > span").text == "<img src=x onerror=alert(1)>\\u202e"
        for number in range(100):
            _tell(chrome, type="line", line=f"line {number}")
        end = (
            "const box = document.querySelector('.console'); return box.scrollHeight - box.scrollTop - box.clientHeight"
        )
        assert chrome.execute_script(end) < 40
        chrome.execute_script("document.querySelector('.console').scrollTop = 0")
        until(chrome, lambda it: it.find_element(By.CSS_SELECTOR, "[data-follow]").text == "Paused: follow")
        _tell(chrome, type="line", line="last")
        assert chrome.execute_script(end) > 40
        _tell(chrome, type="eof")
        assert one(chrome, "[data-console-state]").text == "the log has ended"
    finally:
        chrome.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": added["identifier"]})


def test_a_console_goes_on_with_the_next_phase_and_the_next_run(pages: Site, chrome: webdriver.Chrome) -> None:
    async def show(house: House, run_id: str) -> None:
        status = {"phase": "Applying", "reason": "Applying", "currentRunID": run_id}
        await house.user.patch(WORKSPACES, "shop", "pay-dev", {"status": status}, subresource="status")

    added = chrome.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _STREAM})
    try:
        chrome.get(f"{pages.base}/workspaces/shop/pay-dev?tab=log")
        assert chrome.execute_script("return window.told.url").endswith("phase=plan")
        for run_id in (states.RUN, "20261201T115900-ffffffff"):
            _tell(chrome, type="line", line="of before")
            chrome.execute_script("window.before = window.told")
            _in_sync(chrome)
            pages.run(partial(show, run_id=run_id))
            until(chrome, lambda it: it.execute_script("return window.told !== window.before"))
            assert chrome.execute_script("return window.told.url").endswith("phase=apply")
            _tell(chrome, type="line", line="of now")
            assert [each.text for each in chrome.find_elements(By.CSS_SELECTOR, ".console .ln > span")] == ["of now"]
            assert chrome.execute_script("return window.before.readyState") == 2, "nobody listens to it any more"
            one(chrome, "[data-follow]").click()
            assert one(chrome, "[data-follow]").text == "Paused: follow"
    finally:
        chrome.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": added["identifier"]})


def test_lines_of_a_log_have_addresses_and_it_can_be_searched(pages: Site, chrome: webdriver.Chrome) -> None:
    chrome.get(f"{pages.base}{RUN}/log?phase=plan#L5-L7")
    until(chrome, lambda it: len(it.find_elements(By.CSS_SELECTOR, ".ln.chosen")) == 3)
    assert "Initializing the backend" in one(chrome, "#L5").text
    keys(chrome, "/")
    keys(chrome, "Unsupported", Keys.ENTER)
    until(chrome, lambda it: "q=Unsupported" in it.current_url)
    assert "1 line matches" in one(chrome, ".log .bar").text
    assert one(chrome, ".ln.match").is_displayed()


def test_a_theme_that_was_chosen_stays(pages: Site, chrome: webdriver.Chrome) -> None:
    chrome.get(f"{pages.base}/projects")
    ground = "return getComputedStyle(document.documentElement).backgroundColor"
    before = chrome.execute_script(ground)
    one(chrome, "[data-theme-toggle]").click()
    chosen = chrome.execute_script(ground)
    assert chosen != before
    chrome.get(f"{pages.base}/rollouts")
    assert chrome.execute_script(ground) == chosen


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, out of the package registry: nothing of it is kept here."""
    folder = tmp_path_factory.mktemp("axe")
    try:
        subprocess.run(["npm", "pack", AXE, "--silent"], cwd=folder, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{AXE} cannot be had: {error}")
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def test_no_page_has_a_serious_barrier(pages: Site, chrome: webdriver.Chrome, axe: str) -> None:
    found: dict[str, Any] = {}
    for width, theme in ((1280, "dark"), (390, "light")):
        resize(chrome, width, theme)
        for name, path in PAGES.items():
            chrome.get(pages.base + path)
            chrome.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
            result = chrome.execute_async_script(
                "const done = arguments[0]; axe.run({resultTypes: ['violations']}).then("
                "(found) => done(found.violations.filter((each) => ['serious', 'critical'].includes(each.impact))"
                ".map((each) => [each.id, each.nodes.slice(0, 3).map((node) => node.html)])))"
            )
            if result:
                found[f"{name} {width} {theme}"] = result
    assert found == {}
