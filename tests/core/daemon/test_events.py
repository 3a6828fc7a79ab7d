"""A session's events: numbers, replay, eviction (§12)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.daemon.events import (
    MAX_BEHIND,
    RING_EVENTS,
    TURN_COMPLETE,
    TURN_ERROR,
    EventRing,
    Reader,
    read_last_event_id,
    turn_complete,
    turn_error,
)
from agentconnect.core.daemon.reverse import of_fire, of_prompt


def fill(ring: EventRing, count: int) -> None:
    for _ in range(count):
        ring.add("x", {})


def drained(reader: Reader) -> list[bytes]:
    found = []
    while (frame := reader.next()) is not None:
        found.append(frame)
    return found


def ids(frames: list[bytes]) -> list[int]:
    return [int(frame.split(b"\n")[0].removeprefix(b"id: ")) for frame in frames]


def data(frame: bytes) -> Any:
    *_, line = frame.decode().rstrip("\n").split("\n")
    return json.loads(line.removeprefix("data: "))


def test_a_frame_is_three_lines_and_a_blank() -> None:
    """The envelope repeats id and type; a line break in the data stays escaped."""
    ring = EventRing()
    told = turn_complete("s", "end_turn", of_prompt("p"))
    assert (
        b'id: 1\nevent: turn_complete\ndata: {"id":1,"v":1,"type":"turn_complete","promptId":"p",'
        b'"data":{"sessionId":"s","stopReason":"end_turn","promptId":"p"}}\n\n'
        == ring.add(TURN_COMPLETE, told, "p").frame()
    )
    of = of_fire("t", 5)
    frame = ring.add(TURN_ERROR, turn_error("s", "two\nlines", "agent_error", of)).frame()
    assert 4 == frame.count(b"\n")
    expected: dict[str, Any] = {"sessionId": "s", "message": "two\nlines", "code": "agent_error"}
    expected |= {"taskId": "t", "firedAt": 5}
    assert {"id": 2, "v": 1, "type": "turn_error", "data": expected} == data(frame)


def test_replay_begins_after_the_known_id() -> None:
    """0: from the first; none: only what comes; more than there is: what comes."""
    ring = EventRing()
    fill(ring, 3)
    readers = [Reader(ring, known) for known in (0, 1, 3, None, 99)]
    assert [[1, 2, 3], [2, 3], [], [], []] == [ids(drained(reader)) for reader in readers]
    fill(ring, 1)
    assert [[4]] * 5 == [ids(drained(reader)) for reader in readers]


def test_what_left_the_ring_is_said_to_be_lost() -> None:
    """Once, without an id, and then what there is."""
    ring = EventRing(capacity=4)
    fill(ring, 10)
    lost, *rest = drained(Reader(ring, 3))
    assert lost.startswith(b"event: state_resync_required\n")
    expected = {"reason": "ring_evicted", "lastDeliveredId": 3, "earliestAvailableId": 7}
    assert expected == data(lost)["data"]
    assert [7, 8, 9, 10] == ids(rest)
    assert [7, 8, 9, 10] == ids(drained(Reader(ring, 6)))


def test_a_whole_ring_is_replayed_without_eviction() -> None:
    """Being behind counts from when the stream began."""
    ring = EventRing()
    fill(ring, RING_EVENTS)
    assert RING_EVENTS == len(drained(Reader(ring, 0)))


def test_a_reader_that_falls_behind_is_let_go() -> None:
    """255 events behind is slow, 256 is the end: one last frame without an id."""
    ring = EventRing()
    reader = Reader(ring)
    fill(ring, MAX_BEHIND - 1)
    first = reader.next()
    assert first is not None
    assert first.startswith(b"id: 1\n")
    fill(ring, 1)
    assert not reader.evicted
    assert MAX_BEHIND - 1 == len(drained(reader))
    fill(ring, MAX_BEHIND)
    (last,) = drained(reader)
    assert last.startswith(b"event: client_evicted\n")
    assert reader.evicted
    fill(ring, 1)
    assert reader.next() is None


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20),
    st.none() | st.integers(0, 30),
)
def test_a_reader_misses_nothing_unsaid(steps: list[tuple[int, int]], known: int | None) -> None:
    """Ids rise by one, or a resync says which are gone."""
    ring = EventRing(capacity=8)
    fill(ring, 12)
    reader = Reader(ring, known)
    at = 12 if known is None else min(known, 12)
    for added, taken in steps:
        fill(ring, added)
        for _ in range(taken):
            frame = reader.next()
            if frame is None:
                assert at == ring.last_id
                break
            if frame.startswith(b"id: "):
                assert at + 1 == ids([frame])[0]
                at += 1
            else:
                assert at == data(frame)["data"]["lastDeliveredId"]
                at = data(frame)["data"]["earliestAvailableId"] - 1
                assert at == ring.first_id - 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        ("x", None),
        ("-1", None),
        ("1.5", None),
        ("²", None),
        ("9" * 40, None),
        ("0", 0),
        (" 41 ", 41),
    ],
)
def test_the_header(value: str | None, expected: int | None) -> None:
    """What is no number counts as not sent."""
    assert expected == read_last_event_id(value)
