"""The list of Workspaces: filters, order, pages, and the answering sentence."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from magos.api.workspace import Workspace
from magos.explain import Account, Attention
from magos.ui import workspaces
from magos.ui.badges import attention_of
from magos.ui.workspaces import PAGE, ListView, Query, Sort
from tests.pages import states

CALM = Account(attention=Attention.SETTLED, sentence="It rests.")


def _many(count: int) -> tuple[Workspace, ...]:
    base = states.all_workspaces()
    return tuple(
        structs.replace(
            base[index % len(base)], metadata=structs.replace(base[index % len(base)].metadata, name=f"ws-{index:05}")
        )
        for index in range(count)
    )


def _sorted(items: Sequence[Workspace]) -> list[Workspace]:
    return sorted(items, key=lambda each: (each.metadata.namespace, each.metadata.name))


def _view(items: Sequence[Workspace], query: Query) -> ListView:
    return workspaces.view(_sorted(items), query, lambda _: CALM, states.NOW)


def _follow(items: Sequence[Workspace], path: str) -> ListView:
    from urllib.parse import parse_qsl, urlsplit

    return _view(items, Query.parse(dict(parse_qsl(urlsplit(path).query))))


@pytest.mark.parametrize("sort", Sort)
def test_following_the_pages_shows_each_workspace_once_and_leads_back(sort: Sort) -> None:
    items = _many(3 * PAGE + 7)
    page = _view(items, Query(sort=sort))
    seen, pages = [], [page]
    while True:
        seen += [(row.namespace, row.name) for row in page.rows]
        if not page.older:
            break
        page = _follow(items, page.older)
        pages.append(page)
    assert len(seen) == len(set(seen)) == len(items)
    assert page.newer
    for before in reversed(pages[:-1]):
        page = _follow(items, page.newer)
        assert [row.name for row in page.rows] == [row.name for row in before.rows]
    assert not page.newer


def test_a_page_stays_where_it_is_while_others_come_and_go() -> None:
    items = _sorted(_many(2 * PAGE))
    second = _follow(items, _view(items, Query()).older)
    fewer = [each for each in items if each is not items[3]]
    assert [row.name for row in _follow(fewer, _view(items, Query()).older).rows] == [row.name for row in second.rows]


def test_by_urgency_what_needs_a_person_comes_first() -> None:
    rows = _view(states.all_workspaces(), Query(sort=Sort.STATUS)).rows
    of = {(each.metadata.namespace, each.metadata.name): attention_of(each) for each in states.all_workspaces()}
    order = [list(Attention).index(of[row.namespace, row.name]) for row in rows]
    assert order == sorted(order)


def test_each_part_of_the_sentence_leads_to_as_many_workspaces_as_it_says() -> None:
    items = states.all_workspaces()
    for count in _view(items, Query()).sentence:
        assert str(_follow(items, count.path).matching) == count.text.split(" ")[0], count.text


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (Query(q="PAY"), {"pay-prod", "pay-dev", "pay-staging"}),
        (Query(q="shop/shop-d"), {"shop-dev"}),
        (Query(project="platform", phase="Applied", q="dns"), {"dns"}),
        (Query(label="stage=prod"), {"shop-prod", "pay-prod"}),
        (Query(label="nothing"), set()),
        (Query(state="needs-you"), {"shop-prod", "pay-prod"}),
        (Query(phase="Pending"), {"cluster", "fresh"}),
        (Query(namespace="elsewhere"), set()),
    ],
)
def test_filters_select_what_they_say(query: Query, names: set[str]) -> None:
    assert {row.name for row in _view(states.all_workspaces(), query).rows} == names


def test_what_makes_no_sense_in_an_address_does_not_restrict_the_list() -> None:
    asked = Query.parse({"sort": "x", "view": "<b>", "phase": "No", "state": "?", "after": "//", "before": ""})
    assert not asked.filtered
    assert len(_view(states.all_workspaces(), asked).rows) == len(states.WORKSPACES)


def test_only_the_workspaces_of_the_page_are_explained() -> None:
    asked: list[str] = []

    def explained(each: Workspace) -> Account:
        asked.append(each.metadata.name)
        return CALM

    workspaces.view(_sorted(_many(5_000)), Query(), explained, states.NOW)
    assert len(asked) == PAGE
