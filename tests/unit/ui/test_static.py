"""What browsers load: the vendored script as it was published, and colours that can be read."""

import re
from hashlib import sha256
from importlib.resources import files

import pytest

from magos.ui.render import static_file

HTMX = "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"


def test_htmx_is_what_its_authors_have_published() -> None:
    assert sha256(static_file("htmx-4.0.1.min.js")).hexdigest() == HTMX
    assert "Zero-Clause BSD" in (files("magos.ui") / "static" / "htmx-LICENSE.txt").read_text("utf-8")


def test_our_script_makes_no_html_out_of_texts() -> None:
    script = static_file("app.js").decode()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert word not in script


_CSS = static_file("app.css").decode()
_THEMES = {
    "dark": re.findall(r":root\{color-scheme:dark;([^}]*)\}", _CSS),
    "light, of the system": re.findall(r":root:not\(\[data-theme=dark\]\)\{color-scheme:light;([^}]*)\}", _CSS),
    "light, chosen": re.findall(r":root\[data-theme=light\]\{color-scheme:light;([^}]*)\}", _CSS),
}


def _tokens(theme: str) -> dict[str, str]:
    (found,) = _THEMES[theme]
    return dict(re.findall(r"--([a-z-]+):(#[0-9a-f]+)", found))


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * each for each in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", _THEMES)
def test_every_text_can_be_read_on_every_ground(theme: str) -> None:
    tokens = _tokens(theme)
    texts = ("text", "muted", "accent", "ok", "wait", "warn", "bad", "run", "plan", "apply", "idle")
    weak = {
        (text, ground): round(_contrast(tokens[text], tokens[ground]), 2)
        for text in texts
        for ground in ("bg", "surface", "raised")
        if _contrast(tokens[text], tokens[ground]) < 4.5
    }
    assert weak == {}
    for text, ground in (("accent-text", "accent"), ("danger-text", "danger"), ("text", "mark")):
        assert _contrast(tokens[text], tokens[ground]) >= 4.5, (text, ground)


def test_the_light_theme_is_the_same_whoever_chose_it() -> None:
    assert _tokens("light, of the system") == _tokens("light, chosen")
    assert _tokens("dark").keys() == _tokens("light, chosen").keys()
