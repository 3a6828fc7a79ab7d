"""The broker's probe, and why deliveries are not offered (§2, §11)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.delivery.capability import Conditions, Probe, judge, overlap, reasons

ROUTES = ["POST /v1/rooms/{room}/messages", "POST /v1/rooms/{room}/media"]


def body(**changes: Any) -> bytes:
    block = {"header": "Idempotency-Key", "ttl_seconds": 86_400, "routes": ROUTES, **changes}
    return json.dumps({"room_post_idempotency": block, "more": [1]}).encode()


@pytest.mark.parametrize(
    "raw",
    [
        body(),
        body(extra={"a": 1}),
        body(header="idempotency-key"),
        body(ttl_seconds=10**9),
        body(routes=[*ROUTES, "GET /x", 7]),
        body(routes=["POST /v1/rooms/{id}/messages", "post  /v1/rooms/:room_id/media"]),
    ],
)
def test_what_is_understood(raw: bytes) -> None:
    """Placeholders by any name, more members, a longer life."""
    assert judge(200, raw).passed


@pytest.mark.parametrize(
    ("status", "raw"),
    [
        (None, b""),
        (404, b"{}"),
        (500, body()),
        (204, body()),
        (200, b""),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"{}"),
        (200, b'{"room_post_idempotency": []}'),
        (200, b"[" * 100_000),
        (200, b"\xff"),
        (200, body(header="X-Key")),
        (200, body(header=None)),
        (200, body(ttl_seconds=86_399)),
        (200, body(ttl_seconds="86400")),
        (200, body(ttl_seconds=True)),
        (200, body(ttl_seconds=1e9)),
        (200, body(routes=ROUTES[:1])),
        (200, body(routes="POST")),
        (200, body(routes=None)),
        (200, body(routes=["PUT /v1/rooms/{room}/messages", ROUTES[1]])),
    ],
)
def test_what_enables_nothing(status: int | None, raw: bytes) -> None:
    """Each with a reason of its own in words."""
    found = judge(status, raw)
    assert not found.passed
    assert len(found.why) > 20


@given(st.binary(max_size=200))
def test_any_bytes_are_judged(raw: bytes) -> None:
    """Nothing raises."""
    assert not judge(200, raw).passed


GOOD: dict[str, Any] = {"declared": True, "probe": Probe()}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"declared": False}, "agent"),
        ({"declared": False, "elsewhere": True}, "another machine"),
        ({"probe": None}, "not said yet"),
        ({"probe": Probe(why="the relay is odd")}, "The relay is odd"),
        ({"withdrawn": True}, "without confirming"),
        ({"overlap": "/home/ann"}, "/home/ann"),
        ({"store": "deliveries.db is damaged"}, "deliveries.db is damaged"),
        ({"locked": False}, "lock"),
    ],
)
def test_each_reason_is_a_sentence(changes: dict[str, Any], word: str) -> None:
    """One for each condition that does not hold; none where all do."""
    assert () == reasons(Conditions(**GOOD))
    (sentence,) = reasons(Conditions(**{**GOOD, **changes}))
    assert word in sentence
    assert sentence[0].isupper()
    assert sentence.endswith(".")


def test_a_root_that_contains_the_export_folder() -> None:
    """It, or a folder above; not one whose name only begins the same."""
    export = "/home/ann/.agent-connect/workspace/export"
    assert "/home/ann" == overlap(export, ["/srv", "/home/ann"])
    assert "/" == overlap(export, ["/"])
    assert export == overlap(export, [export])
    assert "" == overlap(export, ["/home/an", export + "/x", "/home/ann/.agent-connect/work"])
