"""The OpenAPI document is true: what it does not name is not answered, whatever is sent (§2.1)."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentconnect.daemon.openapi import document
from agentconnect.daemon.routes import ROUTES
from tests.support.daemon import BODIES, Api, running

DOCUMENT: dict[str, Any] = json.loads(document())
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def bodies(draw: st.DrawFn, fields: tuple[str, ...]) -> bytes:
    """A body near what is wanted: fields left out, repeated, of other types; or none at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=40))
    known = draw(st.fixed_dictionaries({}, optional={f: _field(f) for f in fields}))
    return json.dumps(draw(st.just(known) | ANYTHING)).encode()


def _field(name: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([BODIES[name], BODIES[name]]) | ANYTHING


def test_every_route_is_described() -> None:
    """Path by path and method by method, each reference leading somewhere."""
    described = {
        (path, method.upper()) for path, ways in DOCUMENT["paths"].items() for method in ways
    }
    assert {(route.path, route.method) for route in ROUTES} == described
    named = set(re.findall(r'"#/components/schemas/(\w+)"', document().decode()))
    assert named <= set(DOCUMENT["components"]["schemas"])
    ids = [way["operationId"] for ways in DOCUMENT["paths"].values() for way in ways.values()]
    assert len(ids) == len(set(ids))


async def test_it_is_served(tmp_path: Path) -> None:
    """To whoever has the token."""
    async with running(tmp_path) as api:
        reply = await api.call("GET", "/openapi.json")
    assert (200, "application/json") == (reply.status, reply.header("content-type"))
    assert DOCUMENT == reply.json


async def _try(api: Api, path: str, method: str, body: bytes | None) -> tuple[int, str]:
    reply = await api.call(method, path, body)
    return reply.status, reply.header("content-type")


@pytest.mark.parametrize(
    "route", [r for r in ROUTES if r.does != "events"], ids=lambda r: f"{r.method} {r.path}"
)
def test_no_answer_is_undocumented(route: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any body on any route gives a status and a type that stand there, and never a mistake.

    What is no object is never taken.
    """
    answers = DOCUMENT["paths"][route.path][route.method.lower()]["responses"]
    takes = route.takes.__struct_fields__ if route.takes is not None else ()

    @settings(
        max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(bodies=st.lists(bodies(takes), min_size=4, max_size=4), segment=st.text(max_size=6))
    def tried(bodies: list[bytes], segment: str) -> None:
        path = re.sub(r"\{\w+\}", lambda m: quote(segment or m[0][1:-1], safe=""), route.path)
        path = path if segment else path.replace("/workspaces/workspace/", "/workspaces/side/")

        async def main() -> list[tuple[int, str]]:
            async with running(tmp_path_factory.mktemp("d")) as api:
                sent = bodies if route.takes is not None else [None]
                return [await _try(api, path, route.method, body) for body in sent]

        found = trio.run(main)
        if route.takes is not None:
            for sent, (status, _) in zip(bodies, found, strict=True):
                assert status >= 400 or not sent or isinstance(json.loads(sent), dict), path
        for status, kind in found:
            assert status != 500, path
            assert str(status) in answers, path
            content = answers[str(status)].get("content")
            assert (kind in content) if content else kind == "", path

    tried()
