"""Every page in every state: well-formed, escaped, small, strict about scripts and styles, and labelled."""

import re
from functools import cache

import pytest

from magos.ui.render import STATIC, environment, static_file
from tests.pages.gallery import gallery
from tests.pages.htmlshape import Element, Shape, shape_of
from tests.pages.states import HOSTILE

ROOT = "/deep/magos"


@cache
def _pages() -> dict[str, str]:
    return dict(gallery(root=ROOT))


@cache
def _shapes() -> dict[str, Shape]:
    return {name: shape_of(html) for name, html in _pages().items()}


def _elements() -> list[tuple[str, Element]]:
    return [(name, each) for name, shape in _shapes().items() for each in shape.elements]


def test_every_template_is_in_the_gallery_and_compiles() -> None:
    names = {name.removesuffix(".html") for name in environment().list_templates()} - {"base", "parts"}
    shown = {name.split(",")[0].split(" ")[0] for name in _pages()} | {"variable-set"}
    assert {name for name in names if name not in shown} == set()


def test_every_page_is_well_formed() -> None:
    assert {name: shape.problems for name, shape in _shapes().items() if shape.problems} == {}


def test_the_password_form_names_its_account_for_password_managers() -> None:
    kinds = [
        each.attributes["autocomplete"]
        for name, each in _elements()
        if name == "login True True" and "autocomplete" in each.attributes
    ]
    assert kinds == ["username", "current-password"]


def test_identifiers_are_unique_on_a_page() -> None:
    for name, shape in _shapes().items():
        found = [each.attributes["id"] for each in shape.elements if "id" in each.attributes]
        assert len(found) == len(set(found)), name


@cache
def _hostile() -> dict[str, Shape]:
    text = "".join(HOSTILE)
    return {name: shape_of(html) for name, html in gallery(lambda given: f"{text}{given}")}


def test_no_text_of_others_changes_what_a_page_consists_of() -> None:
    harmless = {name: shape_of(html).skeleton for name, html in gallery(lambda given: f"x{given}")}
    for name, shape in _hostile().items():
        assert shape.problems == [], name
        if not name.startswith(("log", "workspaces")):  # what is searched for decides what these show
            assert _without_links(shape.skeleton) == _without_links(harmless[name]), name


def _without_links(skeleton: list[tuple[str, tuple[str, ...]]]) -> list[tuple[str, tuple[str, ...]]]:
    """A commit and a repository are links only where their texts allow it."""
    return [each for each in skeleton if each[0] not in ("a", "code", "svg", "use", "button", "dd", "dt")]


def test_no_text_of_others_becomes_a_script_a_handler_or_a_foreign_link() -> None:
    for name, shape in _hostile().items():
        for each in shape.elements:
            assert not [key for key in each.attributes if key.startswith("on") or key == "style"], name
            assert each.tag != "script" or set(each.attributes) == {"src", "defer"}, name
            for key in ("href", "src", "action"):
                value = each.attributes.get(key, "/")
                assert re.match(r"(/|#|https://|data:image/svg\+xml,)", value), (name, value)


def test_there_is_no_inline_script_or_style() -> None:
    for name, each in _elements():
        assert each.tag != "style", name
        assert not [key for key in each.attributes if key.startswith("on") or key in ("style", "srcdoc")], name
        if each.tag == "script":
            assert each.attributes["src"].startswith(f"{ROOT}/static/"), name
            assert not each.text.strip(), name


def test_pages_load_nothing_from_elsewhere_and_links_out_are_marked() -> None:
    for name, each in _elements():
        for key in ("src", "href", "action", "data-live", "data-also", "data-stream"):
            value = each.attributes.get(key, "")
            if value.startswith("https://"):
                assert each.tag == "a", (name, value)
                assert each.attributes["rel"] == "noopener noreferrer", (name, value)
            else:
                assert not value or value.startswith((f"{ROOT}/", "#", "data:image/svg+xml,")), (name, value)


def test_every_control_has_a_name() -> None:
    for name, shape in _shapes().items():
        labelled = {
            each.attributes["for"] for each in shape.elements if each.tag == "label" and "for" in each.attributes
        }
        for each in shape.elements:
            if each.tag in ("input", "select", "textarea") and each.attributes.get("type") != "hidden":
                inside = each.parent is not None and each.parent.tag == "label"
                named = "aria-label" in each.attributes or each.attributes.get("id") in labelled or inside
                assert named, (name, each.attributes)
            if each.tag in ("button", "a"):
                text = each.all_text(shape).strip()
                assert text or each.attributes.get("aria-label"), (name, each.tag, each.attributes)


def test_every_form_that_writes_carries_the_token() -> None:
    for name, shape in _shapes().items():
        for form in (each for each in shape.elements if each.tag == "form" and each.attributes.get("method") == "post"):
            inside = [each for each in shape.elements if each.parent is form and each.tag == "input"]
            assert "csrf_token" in {each.attributes["name"] for each in inside}, name


def test_pages_and_files_are_small() -> None:
    assert max(len(html.encode()) for html in _pages().values()) < 150_000
    assert len(static_file("app.css")) < 30_000
    assert len(static_file("app.js")) < 20_000


def test_the_headings_of_a_page_begin_with_one_of_the_first_level() -> None:
    for name, shape in _shapes().items():
        assert [each.tag for each in shape.elements].count("h1") == 1, name


def test_every_icon_that_is_used_is_in_the_sprite() -> None:
    known = set(re.findall(r'<symbol id="([a-z]+)"', static_file("icons.svg").decode()))
    used = {each.attributes["href"].rpartition("#")[2] for _, each in _elements() if each.tag == "use"}
    assert used <= known


def test_an_unknown_name_in_a_template_is_an_error() -> None:
    with pytest.raises(Exception, match="nothing"):
        environment().from_string("{{ nothing }}").render()


def test_other_files_are_not_static() -> None:
    for name in ("../render.py", "htmx-LICENSE.txt", ""):
        assert name not in STATIC
        with pytest.raises(KeyError):
            static_file(name)
