"""What one JSON-RPC line means."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agentconnect.core.acp import jsonrpc
from agentconnect.core.acp.jsonrpc import Notification, Request, Response, Unusable
from agentconnect.core.delivery.ledger import BindingId
from agentconnect.core.delivery.request import Invalid, NotifyRequest, read_deliver, read_notify
from agentconnect.core.errors import AgentError

nested: object = "x"
for _ in range(9):
    nested = {"details": nested}

IDS = st.none() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(IDS)
def test_their_ids_are_echoed_verbatim(call_id: object) -> None:
    """``0``, null and strings are real ids, and keep their type."""
    line = json.dumps({"jsonrpc": "2.0", "id": call_id, "method": "x"}).encode()
    (request,) = jsonrpc.decode(line)
    assert isinstance(request, Request)
    answer = json.loads(jsonrpc.result(request.id, None))
    assert {"jsonrpc": "2.0", "id": call_id, "result": None} == answer


@given(st.binary(max_size=200))
def test_no_line_is_too_bad_to_be_told(line: bytes) -> None:
    """Junk is a value, never an exception."""
    for message in jsonrpc.decode(line):
        assert isinstance(message, Request | Notification | Response | Unusable)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=20))
def test_any_json_is_too(value: object) -> None:
    """JSON that is no message is told apart from one."""
    (message, *_) = jsonrpc.decode(json.dumps(value).encode()) or (Unusable(reason=""),)
    assert isinstance(message, Unusable)


def test_deep_nesting_is_junk_and_not_a_crash() -> None:
    """A hundred thousand brackets end in one unusable line."""
    line = b'{"method":"x","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert [Unusable] == [type(message) for message in jsonrpc.decode(line)]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b'{"id":0,"method":"a"}', Request),
        (b'{"method":"a"}', Notification),
        (b'{"id":3,"result":null}', Response),
        (b'{"id":3}', Response),
        (b'{"id":3,"error":{"code":-32603,"message":"x"}}', Response),
        (b'{"error":{"code":-32601,"message":"x"}}', Unusable),
        (b'{"id":null,"error":{"code":-32600}}', Unusable),
        (b'{"id":"ours?","result":1}', Unusable),
        (b"starting up...", Unusable),
        (b"[1,2]", Unusable),
    ],
)
def test_what_a_message_is(line: bytes, kind: type) -> None:
    """Method and id decide; an answer without a usable id belongs to nothing."""
    (message,) = jsonrpc.decode(line)
    assert kind is type(message)


def test_a_batch_is_handled_element_by_element() -> None:
    """Not part of the protocol, and no reason to lose what it holds."""
    messages = jsonrpc.decode(b'[{"method":"a"},{"id":1,"result":2}]')
    assert [Notification, Response] == [type(message) for message in messages]


def test_half_an_emoji_costs_only_itself() -> None:
    """JavaScript agents cut chunks between surrogates; the text around stays."""
    line = b'{"method":"session/update","params":{"t":"abc\\ud83d"}}'
    (message,) = jsonrpc.decode(line)
    assert isinstance(message, Notification)
    assert {"t": "abc\ufffd"} == msgspec.json.decode(jsonrpc.repair(message.params))


@pytest.mark.parametrize("half", ["\\ud800", "\\udfff", "x\\ud83dx"])
@pytest.mark.parametrize("method", ["_ag2/deliver", "_ag2/notify"])
def test_half_an_emoji_in_an_extension_is_not_repaired(half: str, method: str) -> None:
    """Two ids would become one; their reader refuses them and names the field."""
    params = f'{{"id":"{half}","binding":"b.1","destination":"b.1","text":"{half}","z":["\xff"]}}'
    line = f'{{"id":7,"method":"{method}","params":{params}}}'.encode("latin-1")
    (message,) = jsonrpc.decode(line)
    assert isinstance(message, Request)
    assert (b"7", method) == (bytes(message.id), message.method)
    read = read_deliver if method == "_ag2/deliver" else read_notify
    refused = read(bytes(message.params))
    assert isinstance(refused, Invalid)
    assert "lone surrogate" in refused.detail


def test_a_half_in_what_an_extension_ignores_costs_nothing() -> None:
    """Only what is read has to be whole (§6: anything else is ignored)."""
    line = (
        b'{"id":7,"method":"_ag2/notify","params":{"destination":"b.1","text":"t","z":"\\ud800"}}'
    )
    (message,) = jsonrpc.decode(line)
    assert isinstance(message, Request)
    assert NotifyRequest(destination=BindingId("b.1"), text="t") == read_notify(
        bytes(message.params)
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "Internal error"),
        ("no such model", "Internal error: no such model"),
        ({"details": "Invalid session"}, "Internal error: Invalid session"),
        ({"message": '{"error":{"message":"bad thing"}}'}, "Internal error: bad thing"),
        ([1, 2], "Internal error"),
        (nested, "Internal error"),
    ],
)
def test_the_useful_part_of_an_error(data: object, words: str) -> None:
    """Often only ``data`` says what happened, in one of several shapes."""
    assert words == jsonrpc.detail_of(AgentError(-32603, "Internal error", data))


def test_a_message_that_is_json_is_read_too() -> None:
    """gemini puts the service's whole answer there."""
    message = '{"type":"error","error":{"code":400,"message":"bad thing"}}'
    assert "bad thing" == jsonrpc.detail_of(AgentError(400, message))
    assert "{broken" == jsonrpc.detail_of(AgentError(400, "{broken"))


@pytest.mark.parametrize("raw", [b'"text"', b"7", b'{"code":"x","message":5}', b"null"])
def test_a_misshapen_error_is_still_an_error(raw: bytes) -> None:
    """Whatever the error member holds, there is a code and a message."""
    error = jsonrpc.error_of(raw)
    assert jsonrpc.INTERNAL_ERROR == error.code
    assert error.message


class OpenCallsMachine(RuleBasedStateMachine):
    """Requests, answers in any order, repeats, and the end of the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: jsonrpc.OpenCalls[int] = jsonrpc.OpenCalls()
        self.open: dict[int, int] = {}
        self.settled: set[int] = set()
        self.number = 0

    @rule()
    def ask(self) -> None:
        self.number += 1
        call_id = self.calls.open(self.number)
        assert call_id not in self.open
        assert call_id not in self.settled
        self.open[call_id] = self.number

    @rule(call_id=st.integers(min_value=0, max_value=20))
    def answer(self, call_id: int) -> None:
        if call_id in self.open:
            self.settled.add(call_id)
        assert self.open.pop(call_id, None) == self.calls.take(call_id)

    @rule()
    def close(self) -> None:
        assert sorted(self.open.values()) == sorted(self.calls.drain())
        self.settled |= set(self.open)
        self.open.clear()

    @invariant()
    def each_request_settles_once(self) -> None:
        assert len(self.open) == len(self.calls)


TestOpenCalls = OpenCallsMachine.TestCase
