"""The lines between the daemon and a channel worker."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.channels import ipc
from agentconnect.core.channels.ipc import Channel, Request, Result, ToWorker
from agentconnect.core.destination import Code, Target

REQUEST = Request(
    delivery_id="d1", channel_name="ops", target=Target(type="chat", id="!r"), text="hi"
)


def attempt(request: object) -> ToWorker:
    return ToWorker(id="a", expires_at=1, request=msgspec.Raw(msgspec.json.encode(request)))


def test_an_attempt_as_it_travels() -> None:
    """The names are those of the specification."""
    line = ipc.line(attempt(REQUEST))
    assert {
        "type": "channel_delivery",
        "id": "a",
        "expiresAt": 1,
        "request": {
            "deliveryId": "d1",
            "channelName": "ops",
            "target": {"type": "chat", "id": "!r"},
            "text": "hi",
        },
    } == msgspec.json.decode(line)
    read = ipc.from_daemon(line)
    assert read is not None
    assert REQUEST == ipc.request_in(read)


@pytest.mark.parametrize(
    "change",
    [
        {"text": ""},
        {"text": " \u3000"},
        {"text": "x" * 100_001},
        {"text": "🙂" * 50_001},
        {"text": 7},
        {"target": {"type": "all", "id": "x"}},
        {"target": {"type": "chat", "id": " "}},
        {"target": {"type": "chat", "id": "x", "threadId": "y"}},
        {"channelName": ""},
        {"deliveryId": "x" * 2049},
    ],
    ids=range(10),
)
def test_a_request_that_breaks_a_rule_is_none(change: dict[str, object]) -> None:
    """Both ends look."""
    plain = msgspec.to_builtins(REQUEST)
    assert ipc.request_in(attempt(plain | change)) is None


def test_the_largest_text_fits_into_a_line() -> None:
    """Whatever its characters cost in JSON."""
    for character in ("\x01", "\u20ac", '"'):
        request = msgspec.structs.replace(REQUEST, text=character * 99_999 + "x")
        assert request.valid
        assert len(ipc.line(attempt(request))) < ipc.MAX_LINE_BYTES


def test_answers_as_they_travel() -> None:
    """A good one has no code; a code that nobody knows is a failure."""
    assert b'{"type":"channel_delivery_result","id":"a","ok":true}\n' == ipc.line(
        Result(id="a", ok=True)
    )
    assert None is Result(id="a", ok=True).outcome
    assert Code.REJECTED == Result(id="a", ok=False, code="channel_delivery_rejected").outcome
    assert Code.FAILED == Result(id="a", ok=False, code="something_new").outcome


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_none(data: bytes) -> None:
    """Nothing raises, on either side."""
    assert ipc.from_worker(data) is None
    assert ipc.from_daemon(data) is None
    assert ipc.configuration(data) is None


@pytest.mark.parametrize("field", ["text", "delivery_id", "channel_name"])
def test_half_a_character_cannot_travel(field: str) -> None:
    """So the request is refused before it is written."""
    assert not msgspec.structs.replace(REQUEST, **{field: "a\ud800"}).valid
    target = Target(type="chat", id="\udfff")
    assert not msgspec.structs.replace(REQUEST, target=target).valid


@pytest.mark.parametrize(
    "data", [b"{}", b'{"type":"new"}', b"[" * 50_000, b'{"type":"ready","pid":"x"}', b"\xff"]
)
def test_what_is_not_understood_is_passed_over(data: bytes) -> None:
    """A type of tomorrow is no error."""
    assert ipc.from_worker(data) is None


def test_no_secret_shows_in_a_repr() -> None:
    """Objects that hold one are printed without it."""
    channel = Channel(
        type="matrix",
        secrets={"token": "s3cret"},
        targets={"a": {"url": "https://s3cret"}},
    )
    for held in (channel, ipc.Configure(workspace="main", channels={"ops": channel})):
        assert "s3cret" not in repr(held)
    assert ("s3cret", "https://s3cret") == channel.all_secrets
    assert "!r" not in repr(REQUEST)
