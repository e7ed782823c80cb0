"""The OpenAPI document: made from the same table and types as the routes, and true of every answer."""

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from magos.reference.server import openapi_text
from tests.unit.server.world import API, World, in_world

LOGIN = "/api/v1alpha1"


def made() -> dict[str, Any]:
    """Return the document, as it is checked in."""
    return msgspec.json.decode(openapi_text())  # type: ignore[no-any-return]


def test_the_document_is_served_and_the_page_has_every_operation() -> None:
    async def scene(world: World) -> None:
        found = (await world.ask("/openapi.json", token="")).json
        assert found["openapi"].startswith("3.1")
        page = await world.ask("/docs", token="")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        text = page.body.decode()
        assert "<script" not in text
        assert " style=" not in text
        for path, methods in found["paths"].items():
            for method in methods:
                assert f"<code>{method.upper()} {path}</code>" in text

    in_world(scene)


def test_every_route_of_the_api_is_described() -> None:
    plurals = ("workspaces", "projects", "rollouts", "variablesets")
    kinds = {f"{API}/{plural}{path}" for plural in plurals for path in ("", "/events", "/{namespace}/{name}")}
    one = f"{API}/workspaces/{{namespace}}/{{name}}"
    more = ("runs", "runs/{runID}", "runs/{runID}/log", "runs/current/log/stream", "reconcile", "approve")
    own = {"/healthz", "/readyz", "/openapi.json", "/docs", "/docs/style.css"}
    login = {f"{LOGIN}/{each}" for each in ("auth/login", "auth/token", "auth/whoami", "system/public-config")}
    assert set(made()["paths"]) == kinds | {f"{one}/{each}" for each in more} | own | login


def test_everything_needs_a_credential_but_what_is_meant_to_be_open() -> None:
    opened = {path for path, methods in made()["paths"].items() for each in methods.values() if each["security"] == []}
    login = {f"{LOGIN}/{each}" for each in ("auth/login", "auth/token", "system/public-config")}
    assert opened == {"/healthz", "/readyz", "/openapi.json", "/docs", "/docs/style.css"} | login


def test_the_four_kinds_are_described_as_manifests() -> None:
    schemas = made()["components"]["schemas"]
    for name in ("Workspace", "Project", "Rollout", "VariableSet"):
        assert schemas[name]["properties"]["kind"] == {"const": name}
        assert {"apiVersion", "kind", "metadata"} <= set(schemas[name]["required"])


def test_every_reference_of_the_document_leads_somewhere() -> None:
    found = made()
    names = set(found["components"]["schemas"])

    def references(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            for key, value in node.items():
                if key == "$ref":
                    yield value
                else:
                    yield from references(value)
        elif isinstance(node, list):
            for each in node:
                yield from references(each)

    used = {each.rpartition("/")[2] for each in references(found)}
    assert used <= names
    assert len(used) > 10


schema = schemathesis.openapi.from_dict(made()).exclude(path_regex="/(events|stream)$|^/api/")  # login: test_login
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@schema.parametrize()
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_every_answer_is_as_the_document_says(case: Any) -> None:
    async def scene(world: World) -> None:
        for namespace in ("default", "team-a"):
            world.workspace("a", namespace)
        await world.settled()
        transport = httpx.ASGITransport(world.server.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            options = case.as_transport_kwargs(base_url="http://testserver")
            options["headers"]["authorization"] = "Bearer ann"
            options.pop("cookies", None)
            if isinstance(options.get("data"), bytes | str):
                options["content"] = options.pop("data")
            answer = await client.request(**options)
        case.validate_response(answer, checks=CHECKS)

    in_world(scene)
