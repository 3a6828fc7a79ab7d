"""Bodies and their fields: strict JSON, repeated members, the order of checks (§2.2, §4, §6)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.daemon.body import check_media_type, read_body
from agentconnect.core.daemon.fields import (
    Notify,
    Prompt,
    read_notify,
    read_optional_delivery,
    read_prompt,
    read_session,
)
from agentconnect.core.daemon.refusals import BAD_JSON, Refusal
from agentconnect.core.daemon.target import read_delivery
from agentconnect.core.daemon.text import CUT_MARKER
from agentconnect.core.destination import MAX_TEXT_UNITS, units
from agentconnect.core.repeating import repeats
from tests.core.daemon.requests import ROOM

TARGET = b'{"channelName":"ops","type":"chat","id":"!planted-target:h"}'
DELIVERY = b'{"kind":"channel","target":' + TARGET + b"}"


def body(data: bytes) -> dict[str, Any]:
    found = read_body(data)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b" ", b"{", b'{"a":NaN}', b'{"a":1e999}', b'{"a":"\\ud800"}', b'{"a":"\xff"}'),
        *(b"{} x", b"\xef\xbb\xbf{}", b"[" * 5000 + b"]" * 5000, b'{"a":' + b"9" * 5000 + b"}"),
        *(b'{"a":' * n + b"1" + b"}" * n for n in (201, 900)),
        b'{"a":' + b"[" * 200 + b"]" * 200 + b"}",
    ],
    ids=lambda data: data[:12].decode("latin-1"),
)
def test_what_is_no_json_for_us(data: bytes) -> None:
    """One answer for all of it, and no exception."""
    assert BAD_JSON == read_body(data)


@pytest.mark.parametrize("data", [b"[1]", b'"x"', b"null", b"5", b"{}"])
def test_what_is_no_object_counts_as_an_empty_one(data: bytes) -> None:
    """Its fields are missing then."""
    assert {} == read_body(data)


def test_deep_values_are_taken_up_to_a_limit() -> None:
    """A wide one may have any number of objects."""
    assert {"a"} == body(b'{"a":' * 200 + b"1" + b"}" * 200).keys()
    assert 5000 == len(body(b'{"a":[' + b"{}," * 4999 + b"{}]}")["a"])


@given(st.binary(max_size=40))
def test_any_bytes_are_an_object_or_refused(data: bytes) -> None:
    """Never an exception."""
    assert isinstance(read_body(data), (dict, Refusal))


def test_repeated_members_are_told() -> None:
    """Per object; the value is the last one."""
    found = body(b'{"a":1,"b":{"c":1,"c":2},"a":3}')
    assert {"a": 3, "b": {"c": 2}} == found
    assert [{"a"}, {"c"}] == [repeats(found), repeats(found["b"])]
    assert not repeats(body(b'{"a":1}'))
    assert b'{"a":3,"b":{"c":2}}' == msgspec.json.encode(found)


@pytest.mark.parametrize(
    "delivery",
    [
        b'{"kind":"channel","kind":"channel","target":' + TARGET + b"}",
        b'{"kind":"channel","target":' + TARGET + b',"target":' + TARGET + b"}",
        b'{"kind":"channel","target":' + TARGET[:-1] + b',"id":"!planted-target:h"}}',
    ],
)
def test_a_delivery_that_says_something_twice_is_refused(delivery: bytes) -> None:
    """Two readers could see two targets."""
    assert read_delivery(body(b'{"delivery":' + delivery + b"}")["delivery"]) is None
    assert ROOM == read_delivery(body(DELIVERY))


def test_a_body_with_two_deliveries_is_refused() -> None:
    """For Notify any repeated member; prompts and tasks only care about this one."""
    twice = b',"delivery":' + DELIVERY
    two = body(b'{"text":"x","prompt":[{}]' + twice + twice + b"}")
    assert "channel_delivery_invalid" == _code(read_notify({"text": "x"} | {"delivery": two}))
    assert "channel_delivery_invalid" == _code(read_optional_delivery(two))
    assert "channel_delivery_invalid" == _code(
        read_notify(body(b'{"text":"x","text":"x"' + twice + b"}"))
    )
    assert isinstance(read_prompt(body(b'{"x":1,"x":2,"prompt":[{}]' + twice + b"}")), Prompt)


def test_notify_is_cut_and_says_nothing_in_its_repr() -> None:
    """Neither the text nor the target's id."""
    found = read_notify({"text": "planted-text" * 20_000, "delivery": body(DELIVERY)})
    assert isinstance(found, Notify)
    assert MAX_TEXT_UNITS == units(found.text)
    assert found.text.endswith(CUT_MARKER)
    assert "planted" not in repr(found)


def test_a_prompt_loses_what_only_we_may_say() -> None:
    """``_meta`` of ours, at the top and in blocks; the rest is the agent's to read."""
    block = {"type": "text", "text": "planted", "_meta": {"ag2/x": 1, "y": 2}}
    deep = {
        "type": "resource",
        "resource": {"a": [{"_meta": {"ag2/x": 1, "y": {"_meta": {"ag2/z": 1}}}}]},
    }
    found = read_prompt(
        {
            "prompt": [block, {"type": "text", "_meta": "odd"}, deep],
            "_meta": {"ag2/delivery": {}, "z": 1},
            "delivery": body(DELIVERY),
            "other": 1,
        }
    )
    assert isinstance(found, Prompt)
    assert ({"z": 1}, ROOM) == (found.meta, found.target)
    assert ({"y": 2}, {}) == (found.blocks[0]["_meta"], found.blocks[1]["_meta"])
    assert {"a": [{"_meta": {"y": {"_meta": {}}}}]} == found.blocks[2]["resource"]
    assert "planted" not in repr(found)


def test_the_prompt_is_looked_at_before_its_delivery() -> None:
    """One answer where both are wrong."""
    assert "invalid_prompt" == _code(read_prompt({"prompt": [], "delivery": None}))


def test_a_session_names_a_path_or_nothing() -> None:
    """Null is nothing."""
    assert ["/w", None, None] == [
        read_session({"cwd": "/w"}),
        read_session({}),
        read_session({"cwd": None}),
    ]
    assert "workspace_mismatch" == _code(read_session({"cwd": 5}))


@pytest.mark.parametrize("data", [b"[null]", b'"x"', b"null", b"5"])
def test_no_session_is_made_for_what_is_no_object(data: bytes) -> None:
    """It needs no field, so nothing that is missing would refuse it."""
    assert "workspace_mismatch" == _code(read_session(body(data)))


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON;charset=utf-8", " application/json ; x"]
)
def test_json_with_or_without_parameters(kind: str) -> None:
    """And with no header at all."""
    assert check_media_type(kind) is None
    assert check_media_type(None) is None


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/jsonx", "application/json,text/plain", "x application/json"],
)
def test_other_media_types(kind: str) -> None:
    """415, before the body is read."""
    refusal = check_media_type(kind)
    assert refusal is not None
    assert (415, "unsupported_media_type") == (refusal.status, refusal.code)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "target", "channelName", "type", "id", "text", "delivery", "prompt"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["text", "delivery", "prompt", "_meta", "cwd"]), JSON))
def test_any_fields_are_read_or_refused(fields: dict[str, Any]) -> None:
    """Never an exception; a refusal is a 400 with a code and repeats no value."""
    for read in (read_notify, read_prompt, read_session, read_optional_delivery):
        found = read(fields)
        if isinstance(found, Refusal):
            assert 400 == found.status
            assert {"error", "code"} == msgspec.json.decode(found.body()).keys()


def _code(found: object) -> str:
    assert isinstance(found, Refusal)
    return found.code
