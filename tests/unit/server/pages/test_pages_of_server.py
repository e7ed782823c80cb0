"""The routes of the pages: who sees what, what forms do, and how refusals look."""

import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

import httpx
import pytest
from msgspec import structs

from magos.api.annotations import APPROVED, APPROVED_BY, RECONCILE_REQUEST
from magos.api.project import PROJECTS
from magos.api.rollout import ROLLOUTS
from magos.api.workspace import WORKSPACES
from magos.history.archive import TRUNCATED
from magos.ui.render import assets
from magos.ui.shell import mark
from tests.pages import states
from tests.pages.house import House
from tests.pages.htmlshape import Shape, shape_of
from tests.sim.virtualtime import VirtualClock, run_virtual

PAGES = (
    "/", "/workspaces", "/workspaces?view=rows&sort=status", "/projects", "/projects/shop/shop", "/rollouts",
    "/rollouts/shop/shop", "/variable-sets", "/variable-sets/shop/common", "/settings", "/workspaces/shop/shop-prod",
    *(f"/workspaces/shop/shop-dev?tab={tab}" for tab in ("plan", "log", "runs", "details")),
    "/workspaces/shop/shop-prod?dialog=approve", "/workspaces/shop/shop-prod?dialog=reconcile",
    f"/workspaces/shop/shop-dev/runs/{states.runs()[3].run_id}",
    f"/workspaces/shop/shop-dev/runs/{states.runs()[3].run_id}/log?phase=plan",
)  # fmt: skip
BROWSER = {"accept": "text/html"}


class Reader:
    """A browser without JavaScript."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=house.server.app), base_url="http://127.0.0.1", headers=BROWSER
        )

    async def get(self, path: str, **options: str) -> httpx.Response:
        """Fetch a page; ``options`` are headers."""
        return await self.client.get(path, headers=options)

    async def shape(self, path: str, status: int = 200) -> Shape:
        """Fetch a page that must have this status."""
        answer = await self.get(path)
        assert answer.status_code == status, answer.text[:500]
        return shape_of(answer.text)

    async def send(self, path: str, **fields: str | list[str]) -> httpx.Response:
        """Send a form, with the token."""
        body = urlencode({"csrf_token": "token", **fields}, doseq=True)
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return await self.client.post(path, content=body, headers=kind)


def in_house(test: Callable[[Reader], Awaitable[None]], **options: str) -> None:
    """Run a test in virtual time."""

    async def body() -> None:
        house = House(clock=VirtualClock(), **options)
        async with house.running():
            reader = Reader(house)
            await test(reader)
            await reader.client.aclose()

    run_virtual(body)


def _text(shape: Shape) -> str:
    return " ".join(" ".join(each.text for each in shape.elements).split())


def test_every_page_is_served_well_formed_and_under_its_own_root() -> None:
    async def test(reader: Reader) -> None:
        for path in PAGES:
            shape = await reader.shape(path)
            assert shape.problems == [], path
            for each in shape.elements:
                for key in ("href", "src", "action", "data-live", "data-also", "data-stream"):
                    value = each.attributes.get(key, "#")
                    assert value.startswith(("/deep/", "#", "https://", "data:")) or not value, (path, value)

    in_house(test, base_url="http://127.0.0.1/deep")


def test_every_link_within_the_pages_leads_somewhere() -> None:
    async def test(reader: Reader) -> None:
        seen, waiting = {"/logout"}, ["/"]
        while waiting and len(seen) < 250:
            path = waiting.pop()
            answer = await reader.get(path)
            assert answer.status_code == 200, path
            if not answer.headers["content-type"].startswith("text/html") or path.startswith("/docs"):
                continue
            for each in shape_of(answer.text).elements:
                link = each.attributes.get("href", "#").partition("#")[0] if each.tag == "a" else ""
                if link.startswith("/") and not link.startswith("/apis/") and link not in seen:
                    seen.add(link)
                    waiting.append(link)

    in_house(test)


def test_who_is_not_known_is_led_to_the_login_and_back() -> None:
    async def test(reader: Reader) -> None:
        reader.house.login.closed = True
        answer = await reader.get("/workspaces/shop/shop-dev?tab=runs&cursor=a%20b")
        assert answer.status_code == 303
        target = httpx.URL(answer.headers["location"])
        assert target.path == "/login"
        assert target.params["return"] == "/workspaces/shop/shop-dev?tab=runs&cursor=a%20b"
        assert (await reader.send("/workspaces/shop/shop-dev/reconcile")).status_code == 401

    in_house(test)


@pytest.mark.parametrize("path", ["/workspaces/shop/shop-dev", "/projects/shop/shop", "/variable-sets/shop/common"])
def test_who_may_not_see_an_object_is_told_which_right_is_missing(path: str) -> None:
    async def test(reader: Reader) -> None:
        reader.house.access.refused = {"shop"}
        text = _text(await reader.shape(path, 403))
        assert "jane@example.org may not get" in text
        assert "in shop" in text
        nothing = await reader.shape(path.rpartition("/")[0] + "/nothing", 403)
        assert "may not get" in _text(nothing), "who may not look learns not what there is"

    in_house(test)


def test_lists_and_pages_beside_show_only_what_may_be_seen() -> None:
    async def test(reader: Reader) -> None:
        reader.house.access.refused = {"shop"}
        for path in ("/", "/workspaces", "/projects", "/rollouts", "/variable-sets", "/settings"):
            assert "shop" not in _text(await reader.shape(path)), path
        reader.house.access.refused = {"list workspaces"}
        assert "Nothing that you may see uses it" not in _text(await reader.shape("/variable-sets/shop/common"))
        assert "shop-dev" not in _text(await reader.shape("/projects/shop/shop"))
        assert "shop-dev" not in _text(await reader.shape("/rollouts/shop/shop"))

    in_house(test)


def test_what_does_not_exist_is_a_page_that_says_so() -> None:
    async def test(reader: Reader) -> None:
        for path in ("/nothing", "/workspaces/shop/nothing"):
            assert "There is no such thing here" in _text(await reader.shape(path, 404))
        assert (await reader.get("/workspaces/Not%20A/name")).status_code == 400
        assert (await reader.get("/workspaces/shop/shop-dev/runs/x")).status_code == 400
        plain = await reader.get("/workspaces/shop/nothing", accept="application/json")
        assert plain.json() == {"error": "there is no Workspace shop/nothing"}

    in_house(test)


def test_a_form_asks_for_a_run_and_leads_back() -> None:
    async def test(reader: Reader) -> None:
        answer = await reader.send("/workspaces/shop/shop-dev/reconcile")
        assert (answer.status_code, answer.headers["location"]) == (303, "/workspaces/shop/shop-dev")
        found = await reader.house.user.get(WORKSPACES, "shop", "shop-dev")
        assert RECONCILE_REQUEST in found.metadata.annotations

    in_house(test)


def test_the_very_run_of_the_dialog_is_approved_in_the_name_of_the_caller() -> None:
    async def test(reader: Reader) -> None:
        shape = await reader.shape("/workspaces/shop/shop-prod?dialog=approve")
        (run,) = [each.attributes["value"] for each in shape.elements if each.attributes.get("name") == "run_id"]
        answer = await reader.send("/workspaces/shop/shop-prod/approve", run_id=run)
        assert answer.status_code == 303
        found = await reader.house.user.get(WORKSPACES, "shop", "shop-prod")
        assert found.metadata.annotations[APPROVED] == states.RUN
        assert "jane@example.org" in found.metadata.annotations[APPROVED_BY]

    in_house(test)


def test_another_run_than_that_of_the_dialog_is_not_approved_and_the_new_one_is_shown() -> None:
    async def test(reader: Reader) -> None:
        answer = await reader.send("/workspaces/shop/shop-prod/approve", run_id="20261201T100000-00000000")
        assert answer.status_code == 409
        text = _text(shape_of(answer.text))
        assert f"waits for the approval of run {states.RUN}" in text
        assert "Apply this plan to shop-prod?" in text
        found = await reader.house.user.get(WORKSPACES, "shop", "shop-prod")
        assert APPROVED not in found.metadata.annotations

    in_house(test)


@pytest.mark.parametrize("acknowledged", [[], ["0"], ["0", "0"], ["0", "2"]])
def test_violations_are_acknowledged_one_by_one_or_nothing_is_approved(acknowledged: list[str]) -> None:
    async def test(reader: Reader) -> None:
        path = "/workspaces/shop/pay-prod/approve"
        answer = await reader.send(path, run_id=states.RUN, acknowledge=acknowledged)
        assert answer.status_code == 422
        found = await reader.house.user.get(WORKSPACES, "shop", "pay-prod")
        assert APPROVED not in found.metadata.annotations
        assert (await reader.send(path, run_id=states.RUN, acknowledge=["0", "1"])).status_code == 303

    in_house(test)


def test_buttons_without_the_right_are_closed_and_their_forms_are_refused() -> None:
    async def test(reader: Reader) -> None:
        reader.house.access.refused = {"patch workspaces", "patch workspaces/status"}
        shape = await reader.shape("/workspaces/shop/shop-prod")
        closed = [each for each in shape.elements if each.tag == "button" and "disabled" in each.attributes]
        assert len(closed) == 2
        assert "jane@example.org may not patch workspaces/status in shop." in _text(shape)
        for action in ("approve", "reconcile"):
            answer = await reader.send(f"/workspaces/shop/shop-prod/{action}", run_id=states.RUN)
            assert answer.status_code == 403
        found = await reader.house.user.get(WORKSPACES, "shop", "shop-prod")
        assert not found.metadata.annotations

    in_house(test)


def test_a_dialog_that_may_not_be_used_does_not_open() -> None:
    async def test(reader: Reader) -> None:
        reader.house.access.refused = {"patch workspaces", "patch workspaces/status"}
        for dialog in ("approve", "reconcile"):
            shape = await reader.shape(f"/workspaces/shop/shop-prod?dialog={dialog}")
            assert not [each for each in shape.elements if "data-dialog" in each.attributes]

    in_house(test)


def test_without_history_all_else_works_and_the_page_says_what_is_missing() -> None:
    async def test(reader: Reader) -> None:
        reader.house.history.down = True
        shape = await reader.shape("/workspaces/shop/shop-dev?tab=runs")
        assert "Run history is not available at the moment" in _text(shape)
        assert states.RUN.rpartition("-")[2] in _text(shape)
        assert (await reader.get(f"/workspaces/shop/shop-dev/runs/{states.RUN}")).status_code == 200
        assert (await reader.get(f"/workspaces/shop/shop-dev/runs/{states.runs()[3].run_id}")).status_code == 503

    in_house(test)


def test_a_log_that_is_being_written_is_followed_and_a_missing_one_explained() -> None:
    async def test(reader: Reader) -> None:
        live = await reader.shape(f"/workspaces/shop/pay-dev/runs/{states.RUN}/log?phase=plan")
        (box,) = [each for each in live.elements if "data-stream" in each.attributes]
        assert box.attributes["data-stream"].endswith("/pay-dev/runs/current/log/stream?phase=plan")
        gone = await reader.shape(f"/workspaces/shop/shop-dev/runs/{states.RUN}/log?phase=plan")
        assert "There is no log of the plan of this run" in _text(gone)
        assert (await reader.get(f"/workspaces/shop/shop-dev/runs/{states.RUN}/log?phase=x")).status_code == 400

    in_house(test)


def test_a_theme_is_kept_by_the_form_and_shown_on_the_next_page() -> None:
    async def test(reader: Reader) -> None:
        assert (await reader.send("/settings/theme", theme="light")).status_code == 303
        shape = await reader.shape("/settings")
        assert shape.elements[0].attributes["data-theme"] == "light"
        reader.client.cookies.set("magos_theme", "<script>")
        assert "data-theme" not in (await reader.shape("/nothing", 404)).elements[0].attributes

    in_house(test)


def test_settings_tell_how_one_logs_in_and_what_is_kept_for_how_long() -> None:
    async def test(reader: Reader) -> None:
        text = _text(await reader.shape("/settings"))
        for each in (
            "Login as admin on",
            "Identity provider https://issuer.example.com",
            "Run history in PostgreSQL",
            "the newest 12 that have ended of each Workspace; all of a deleted one for 5 days",
            "Log archive in a bucket",
            "Who may use the API and the web UI",
        ):
            assert each in text
        page = (await reader.get("/settings")).text
        assert all(f'href="/{each}"' in page for each in ("docs", "openapi.json"))

    in_house(test)


def test_files_may_be_kept_for_ever_under_the_address_of_their_content_only() -> None:
    async def test(reader: Reader) -> None:
        reader.house.login.closed = True
        for name, kind in (("app.css", "text/css"), ("app.js", "text/javascript"), ("icons.svg", "image/svg+xml")):
            answer = await reader.get(f"/static/{name}?v={assets()}")
            assert answer.headers["content-type"].startswith(kind)
            assert "immutable" in answer.headers["cache-control"]
            assert (await reader.get(f"/static/{name}?v=other")).headers["cache-control"] == "no-cache"

    in_house(test)


def test_a_list_follows_changes_by_stream_while_it_is_short() -> None:
    async def test(reader: Reader) -> None:
        assert _body(await reader.shape("/workspaces"))["data-live"].endswith("/workspaces/events")
        _grow(reader.house, 600)
        assert "data-live" not in (grown := _body(await reader.shape("/workspaces")))
        assert grown["data-seconds"] == "15"

    in_house(test)


def test_a_page_of_several_kinds_follows_the_object_itself_too() -> None:
    async def test(reader: Reader) -> None:
        user = reader.house.user
        rollout, project = await user.get(ROLLOUTS, "shop", "shop"), await user.get(PROJECTS, "shop", "shop")
        for own, shown in (("rollouts", rollout), ("projects", project)):
            body = _body(await reader.shape(f"/{own}/shop/shop"))
            assert "/workspaces/events?namespace=shop&projectRef=shop" in body["data-live"]
            assert f"/{own}/events?namespace=shop" in body["data-also"]
            assert (body["data-live-name"], body["data-also-name"]) == ("", "shop")
            assert body["data-also-mark"] == mark([shown.metadata.resource_version])

    in_house(test)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/workspaces/shop/shop-dev", "workspaces"),
        ("/projects/shop/shop", "workspaces"),
        ("/projects/shop/shop", "projects"),
        ("/rollouts/shop/shop", "rollouts"),
        ("/variable-sets/shop/common", "variablesets"),
    ],
)
def test_whoever_may_not_watch_has_the_page_fetched_again_and_no_lost_connection(path: str, kind: str) -> None:
    async def test(reader: Reader) -> None:
        assert "data-live" in _body(await reader.shape(path))
        reader.house.access.refused = {f"watch {kind}"}
        body = _body(await reader.shape(path))
        assert ("data-live" in body, body["data-seconds"]) == (False, "15")

    in_house(test)


def test_the_list_of_5000_workspaces_costs_little_more_than_that_of_50() -> None:
    async def test(reader: Reader) -> None:
        async def cost(path: str) -> float:
            await reader.get(path)
            began = time.perf_counter()
            assert (await reader.get(path)).status_code == 200
            return time.perf_counter() - began

        _grow(reader.house, 50)
        small = await cost("/workspaces?sort=status")
        _grow(reader.house, 5_000)
        for path in ("/workspaces?sort=status", "/workspaces?q=ws-04", "/"):
            answer = await reader.get(path)
            assert len(answer.content) < 150_000
            assert await cost(path) < 0.3 + 10 * small, path

    in_house(test)


def _body(shape: Shape) -> dict[str, str]:
    return next(each for each in shape.elements if each.tag == "body").attributes


def _grow(house: House, count: int) -> None:
    base = states.all_workspaces()
    items = [
        structs.replace(each, metadata=structs.replace(each.metadata, name=f"ws-{index:05}"))
        for index in range(count)
        for each in (base[index % len(base)],)
    ]
    house.server.cluster.workspaces.cache.replace(items, (), "9")


@pytest.mark.parametrize("path", ["/workspaces/shop/pay-prod?tab=plan", "/workspaces/shop/shop-dev/runs/{}"])
def test_the_plan_shows_its_changes_by_address_with_destroys_open(path: str) -> None:
    async def test(reader: Reader) -> None:
        reader.house.archive.log = states.PLAN_LOG
        shape = await reader.shape(path.format(states.runs()[4].run_id))
        blocks = [each for each in shape.elements if each.tag == "details"]
        assert len(blocks) == 11
        assert ["open" in each.attributes for each in blocks] == [True] * 2 + [False] * 9
        assert blocks[1].all_text(shape).split()[0] == "terraform_data.gone"

    in_house(test)


@pytest.mark.parametrize("path", ["/workspaces/shop/pay-prod?tab=plan", "/workspaces/shop/shop-dev/runs/{}"])
def test_an_archive_that_is_down_costs_the_changes_and_not_the_page(path: str) -> None:
    async def test(reader: Reader) -> None:
        reader.house.archive.down = True
        text = _text(await reader.shape(path.format(states.runs()[4].run_id)))
        assert "The plan's log cannot be read at the moment" in text
        assert "to destroy" in text

    in_house(test)


def test_the_changes_of_a_log_that_the_archive_has_cut_are_not_shown() -> None:
    async def test(reader: Reader) -> None:
        reader.house.archive.log = states.PLAN_LOG + TRUNCATED
        shape = await reader.shape(f"/workspaces/shop/shop-dev/runs/{states.runs()[4].run_id}")
        assert "The plan's log is cut" in _text(shape)
        assert not [each for each in shape.elements if each.tag == "details"]

    in_house(test)


def test_the_plan_that_is_being_made_is_not_read_yet() -> None:
    async def test(reader: Reader) -> None:
        reader.house.archive.log = states.PLAN_LOG
        shape = await reader.shape(f"/workspaces/shop/pay-dev/runs/{states.RUN}")
        assert "The plan is being made." in _text(shape)
        assert not [each for each in shape.elements if each.tag == "details"]

    in_house(test)


def test_the_rows_of_runs_lead_to_both_logs() -> None:
    async def test(reader: Reader) -> None:
        shape = await reader.shape("/workspaces/shop/shop-dev?tab=runs")
        links = {each.attributes.get("href", "") for each in shape.elements if each.tag == "a"}
        run = f"/workspaces/shop/shop-dev/runs/{states.runs()[4].run_id}"
        assert {f"{run}/log?phase=plan", f"{run}/log?phase=apply"} <= links

    in_house(test)
