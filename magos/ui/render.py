"""Turns a view model into HTML: Jinja2 with escaping by default, and an error for whatever a template misspells."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import jinja2

from magos.ui.shell import NAVIGATION, Shell

STATIC = ("app.css", "app.js", "htmx-4.0.1.min.js", "icons.svg")
"""The files that browsers load."""


@cache
def static_file(name: str) -> bytes:
    """Return one of ``STATIC``. Raises ``KeyError`` for any other name."""
    if name not in STATIC:
        raise KeyError(name)
    return (files("magos.ui") / "static" / name).read_bytes()


@cache
def assets() -> str:
    """Return the digest of all static files."""
    return sha256(b"".join(map(static_file, STATIC))).hexdigest()[:12]


@cache
def environment() -> jinja2.Environment:
    """Return the templates, compiled once."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(files("magos.ui") / "templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["navigation"] = NAVIGATION
    return made


def render(template: str, shell: Shell, view: Any) -> str:
    """Return the page ``template`` (without ``.html``) for ``view``."""
    return environment().get_template(f"{template}.html").render(shell=shell, root=shell.root, view=view)
