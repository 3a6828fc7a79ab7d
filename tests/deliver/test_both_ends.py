"""What the outbox stores the worker accepts; what the worker answers the outbox understands."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.delivery import answers as worker
from agentconnect.core.delivery.ledger import Reason
from agentconnect.core.delivery.request import DeliverRequest, Invalid, read_deliver
from agentconnect.deliver import File, InvalidDeliveryError
from agentconnect.deliver import answers as agent
from agentconnect.deliver.request import request
from tests.deliver.support import BINDING

_ANY = st.text(st.characters(), max_size=300)
_URIS = st.one_of(
    st.just("file:///x"),
    st.text(max_size=40).map(lambda path: f"file:///{path}"),
    st.sampled_from(
        [
            "file:///",
            "file:////",
            "FILE:///x",
            "file://LOCALHOST/x",
            "file:/x",
            "file:///x#y",
            "file:///%zz",
            "file:///a%2Fb",
            "file:///" + "x" * 16_400,
        ]
    ),
)
_FILES = st.lists(st.builds(File, _URIS, st.none() | _ANY, st.none() | _ANY), max_size=11)


@given(ident=_ANY, text=st.none() | _ANY, files=_FILES)
def test_the_worker_accepts_what_is_stored(ident: str, text: str | None, files: list[File]) -> None:
    """Nothing is stored that the worker would refuse, and both count the same parts."""
    try:
        asked = request(ident, BINDING, text, files)
    except InvalidDeliveryError:
        return
    # as a JSON library writes it again, not as it was stored
    read = read_deliver(json.dumps(json.loads(asked.params), ensure_ascii=False).encode())
    assert isinstance(read, DeliverRequest), read
    assert (ident, BINDING, len(files) + read.speaks) == (read.id, read.binding, asked.parts)
    assert [file.where for file in files] == [file.uri for file in read.files]


def told(answer: worker.Answer | Invalid, parts: int) -> agent.Answer:
    """An answer of the worker as the agent reads it."""
    wire = worker.wire(answer)
    body = json.loads(json.dumps(wire.body))
    return agent.read_error(wire.code, body) if wire.code else agent.read_result(body, parts)


PARTS = tuple(worker.DeliveredPart(part=n, event_id=f"${n}", status="replayed") for n in range(2))
READ = tuple(agent.Part(n, f"${n}", "replayed") for n in range(2))


def test_delivered() -> None:
    """A Delivered is one, if it names the parts that were sent."""
    answer = worker.Delivered(delivered=PARTS, expires_at=1_800_000_000.0)
    assert agent.Delivered(READ) == told(answer, 2)
    assert isinstance(told(answer, 3), agent.Retry)


def test_retry() -> None:
    """A Retry keeps its pause and its moment."""
    answer = worker.Retry(retry_after_s=12.5, reason="busy", expires_at=1_800_000_000.5)
    assert agent.Retry("busy", 13.0, 1_800_000_000.0) == told(answer, 1)
    assert agent.Retry("x", 1.0) == told(worker.Retry(retry_after_s=0, reason="x"), 1)


@pytest.mark.parametrize("reason", list(Reason))
def test_final(reason: Reason) -> None:
    """Every reason for a Final is an end with that reason; so are invalid params."""
    answer = worker.Final(reason=reason, detail="why", delivered=PARTS[:1])
    assert agent.Final(reason.value, "why", READ[:1]) == told(answer, 2)
    assert agent.Final("rejected", "id is bad") == told(Invalid(field="id", detail="id is bad"), 1)
