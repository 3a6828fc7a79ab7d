"""Attachments from elsewhere: only what the owner listed, no bearer, never inside (★4c)."""

from pathlib import Path

import pytest

from agentconnect.core.task import MediaMarker, Task, TaskId
from agentconnect.relay.foreign import PublicResolver
from agentconnect.relay.http import Http
from agentconnect.relay.media import Media
from agentconnect.relay.resolver import Address, Resolver
from tests.shell.relay.rig import running
from tests.support.fake_broker import Answer, open_broker, wire_task


def marker(url: str) -> str:
    return f"look [ag2space-media: {url} mime=text/plain name=a.txt]"


async def test_a_listed_origin_on_this_machine_is_not_called(tmp_path: Path) -> None:
    """A name the owner listed may lead inside by now: the address decides, after the look-up."""
    async with open_broker() as broker, open_broker() as inner:
        origin = inner.base.removesuffix("/relay")
        named = origin.replace("127.0.0.1", "localhost")
        async with running(broker, tmp_path, media_origins=(origin, named)) as rig:
            for number, place in enumerate((origin, named), start=1):
                broker.serve(wire_task(f"t{number}", body=marker(f"{place}/secret")))
                task = (await rig.tasks(number))[-1]
                (attachment,) = task.attachments
                assert (attachment.ok, attachment.reason) == (False, "unreachable")
            assert inner.requests == []
            assert inner.connections == 0


async def test_an_unlisted_origin_is_not_even_looked_up(tmp_path: Path) -> None:
    """Any member can type a marker."""
    async with open_broker() as broker, open_broker() as inner, running(broker, tmp_path) as rig:
        broker.serve(wire_task("t1", body=marker(f"{inner.base}/v1/media/x/y")))
        (task,) = await rig.tasks()
        assert task.attachments[0].reason == "unfetchable"
        assert inner.connections == 0


async def test_a_listed_origin_never_sees_the_bearer(tmp_path: Path) -> None:
    """Neither does its 401 say anything about the bearer."""
    asked: list[str] = []
    async with open_broker() as broker, open_broker() as other:
        text = {"Content-Type": "text/plain"}
        other.script("fetch", Answer(body=b"hello", headers=text), Answer(401))
        origin = other.base.removesuffix("/relay")
        http = Http(
            broker.base,
            lambda: "s3cret",
            on_unauthorized=lambda: asked.append("suspected"),
            foreign=Resolver(),
        )
        media = Media(http, tmp_path, (origin,))
        markers = tuple(MediaMarker(url=f"{other.base}/v1/media/h/{name}") for name in "ab")
        good, bad = await media.fetch(Task(id=TaskId("t1"), media=markers))
        await http.aclose()
        assert (good.ok, good.size, good.mime) == (True, 5, "text/plain")
        assert bad.reason == "unreachable (HTTP 401)"
        assert asked == []
        assert all("authorization" not in request.headers for request in other.requests)


async def test_only_the_public_addresses_of_a_name_are_used() -> None:
    """A name with an inner and an outer address leads to the outer one; inner ones lead nowhere."""
    found: list[Address] = [(2, ("10.0.0.1", 80)), (2, ("8.8.8.8", 80)), (10, ("::1", 80))]
    resolver = PublicResolver(lambda host, port: found)
    assert await resolver.addresses("files.example", 80) == [(2, ("8.8.8.8", 80))]
    del found[1]
    with pytest.raises(OSError, match="no public address"):
        await resolver.addresses("other.example", 80)
    with pytest.raises(OSError, match="no public address"):
        await resolver.addresses("127.0.0.1", 80)
