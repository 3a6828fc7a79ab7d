"""Frames into a pipe that a child reads."""

import os

import pytest
import trio

from agentconnect.acp.sending import PipeEnd


async def test_what_the_pipe_takes_goes_at_once() -> None:
    """A short frame goes whole, without a turn of the loop."""
    reading, writing = os.pipe()
    end = PipeEnd(writing)
    assert b"" == end.send_now(b"frame\n")
    assert b"frame\n" == os.read(reading, 100)
    await end.aclose()
    os.close(reading)


async def test_what_a_full_pipe_does_not_take_comes_back() -> None:
    """Nothing is lost and nothing goes twice: what came back follows when there is room."""
    reading, writing = os.pipe()
    end = PipeEnd(writing)
    frame = bytes(range(256)) * 4096
    rest = end.send_now(frame)
    assert 0 < len(rest) < len(frame)
    assert rest == end.send_now(rest)
    found = bytearray()
    stream = trio.lowlevel.FdStream(reading)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end.send_all, rest)
        while len(found) < len(frame):
            found += await stream.receive_some()
    assert frame == bytes(found)
    await end.aclose()
    await stream.aclose()


async def test_a_pipe_that_is_gone_takes_nothing() -> None:
    """Its reader has ended, or it is closed: the waiting call says which."""
    reading, writing = os.pipe()
    os.close(reading)
    end = PipeEnd(writing)
    assert b"x" == end.send_now(b"x")
    with pytest.raises(trio.BrokenResourceError):
        await end.send_all(b"x")
    await end.aclose()
    assert b"x" == end.send_now(b"x")
    with pytest.raises(trio.ClosedResourceError):
        await end.send_all(b"x")
