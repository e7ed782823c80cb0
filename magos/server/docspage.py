"""The documentation of the API as one page without scripts, made from the OpenAPI document."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """\
:root { color-scheme: light dark; }
body { font-family: system-ui, sans-serif; line-height: 1.5; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; }
h2 { border-top: 1px solid; font-size: 1rem; margin-top: 2rem; padding-top: 1rem; }
table { border-collapse: collapse; width: 100%; }
td, th { border-bottom: 1px solid; padding: 0.25rem 0.5rem 0.25rem 0; text-align: left; vertical-align: top; }
"""


def page(document: Mapping[str, Any], style_url: str) -> str:
    """Return the page."""
    info = document["info"]
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_e(info["title"])} API</title>'
        f'<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="{_e(style_url)}"></head>'
    )
    body = "".join(
        part
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        for part in _operation(path, method, operation)
    )
    intro = (
        f"<h1>{_e(info['title'])} API {_e(info['version'])}</h1>"
        '<p>The same as <a href="openapi.json">OpenAPI document</a>, which has the types too.</p>'
    )
    return f"{head}<body>{intro}{body}</body></html>"


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h2><code>{_e(method.upper())} {_e(path)}</code></h2><p><strong>{_e(operation['summary'])}.</strong> "
    yield f"{_e(operation.get('description', ''))}</p><table>"
    for each in operation.get("parameters", ()):
        yield f"<tr><td><code>{_e(each['name'])}</code></td><td>{_e(each['in'])}: {_e(each['description'])}</td></tr>"
    if body := operation.get("requestBody"):
        yield f"<tr><td>body</td><td>{_type(body['content'])}</td></tr>"
    for code, answer in operation["responses"].items():
        yield f"<tr><td>{_e(code)}</td><td>{_e(answer['description'])} {_type(answer['content'])}</td></tr>"
    yield "</table>"


def _type(content: Mapping[str, Any]) -> str:
    [(media, each)] = content.items()
    schema = each["schema"]
    many = schema.get("items", {}).get("$ref", "")
    name = schema.get("$ref", many).rpartition("/")[2]
    return f"<code>{_e(f'[{name}]' if many else name or media)}</code>"


def _e(text: str) -> str:
    return escape(str(text))
