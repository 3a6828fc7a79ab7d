"""Declarations and destinations, as clients write them and as the SDK hands them over."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentconnect.deliver import (
    CAPABILITY,
    Destination,
    declared,
    destination,
    notify_destination,
    notify_params,
)
from tests.deliver.support import BINDING


@pytest.mark.parametrize(
    ("capabilities", "meta", "yes"),
    [
        ({"_meta": {"ag2/deliver": True}}, None, True),
        ({"_meta": {"ag2/deliver": {}}}, None, True),
        ({}, {"ag2/deliver": True}, True),
        (SimpleNamespace(field_meta={"ag2/deliver": True}), None, True),
        (SimpleNamespace(field_meta=None), {}, False),
        ({"_meta": {"ag2/receive": True}}, {"ag2/receive": True}, False),
        ({"_meta": {"ag2/deliver": "true"}}, {"ag2/deliver": 1}, False),
        ({"_meta": ["ag2/deliver"]}, "ag2/deliver", False),
        (None, None, False),
        ({"ag2/deliver": True}, None, False),
    ],
)
def test_declared(capabilities: object, meta: object, yes: bool) -> None:
    """Only exactly true or an object is yes, in either of the two places."""
    assert yes == declared(capabilities, meta)


def test_destination() -> None:
    """The binding, its folder and its end are read from a session's meta."""
    told = {"binding": BINDING, "export_dir": "/e/x", "expires_at": "2027-01-01T01:00:00+01:00"}
    assert Destination(BINDING, Path("/e/x"), datetime(2027, 1, 1, tzinfo=UTC)) == destination(
        {"ag2/delivery": told, "other": 1}
    )


@pytest.mark.parametrize(
    "told",
    [
        None, "x", [], {}, {"binding": BINDING}, {"export_dir": "/e"},
        {"binding": "a/b", "export_dir": "/e"}, {"binding": BINDING, "export_dir": "e"},
        {"binding": BINDING, "export_dir": "/e\0"}, {"binding": 5, "export_dir": "/e"},
    ],
)  # fmt: skip
def test_no_destination(told: object) -> None:
    """Anything else is no destination."""
    assert destination({"ag2/delivery": told}) is None
    assert destination(told) is None


def test_notify() -> None:
    """A notify goes where the session's meta said."""
    where = notify_destination({"ag2/destination": BINDING})
    assert where is not None
    assert {"destination": BINDING, "text": "hi"} == notify_params(where, "hi")
    odd: list[Any] = [None, {}, {"ag2/destination": {}}, {"ag2/destination": ""}]
    assert [None] * 4 == [notify_destination(meta) for meta in odd]


def test_capability() -> None:
    """What the agent declares is what the client looks for."""
    assert declared({"_meta": CAPABILITY})
