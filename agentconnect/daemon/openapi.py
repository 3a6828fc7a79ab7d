"""The OpenAPI document, made from the table of routes and the types of their bodies."""

import re
from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec

from agentconnect.daemon.edge import SECRET_HEADER
from agentconnect.daemon.routes import ROUTES, Route
from agentconnect.daemon.shapes import ErrorAnswer

_REF = "#/components/schemas/{name}"
_SEGMENT = re.compile(r"\{(\w+)\}")
_METHOD_REFUSED = 405


@cache
def document() -> bytes:
    """OpenAPI 3.1 as JSON."""
    types = {each for route in ROUTES for each in (route.takes, route.gives) if each}
    ordered = (*sorted(types, key=lambda each: each.__name__), ErrorAnswer)
    schemas, components = msgspec.json.schema_components(ordered, ref_template=_REF)
    by_type: dict[Any, dict[str, Any]] = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    made = {
        "openapi": "3.1.0",
        "info": {
            "title": "Agent Connect daemon",
            "version": version("agentconnect"),
            "description": "Immediate, best-effort delivery to IM channels: no outbox, no retry.",
        },
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "webhook": {"type": "apiKey", "in": "header", "name": SECRET_HEADER},
            },
        },
    }
    return msgspec.json.encode(made)


def _operation(route: Route, by_type: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    where = route.path.replace("{", "").replace("}", "")
    made: dict[str, Any] = {
        "operationId": f"{route.method.lower()}{where.replace('/', '_').replace('-', '_')}",
        "summary": route.summary,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _SEGMENT.findall(route.path)
        ],
        "responses": {str(route.status): _success(route, by_type)},
    }
    if not route.bearer:
        made["security"] = [{"webhook": []}] if route.takes is not None else []
    if route.takes is not None:
        content = {"application/json": {"schema": by_type[route.takes]}}
        made["requestBody"] = {"required": not route.optional_body, "content": content}
    error = {"application/json": {"schema": by_type[ErrorAnswer]}}
    for status in (*route.statuses, _METHOD_REFUSED):
        made["responses"][str(status)] = {"description": "Refused", "content": error}
    return made


def _success(route: Route, by_type: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {"description": "Done"}
    if route.gives is not None:
        made["content"] = {"application/json": {"schema": by_type[route.gives]}}
    elif route.does == "events":
        made["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    elif route.does == "openapi":
        made["content"] = {"application/json": {"schema": {"type": "object"}}}
    return made
