"""The texts of accepted deliveries: on disk until each is posted, a few in memory at once (§8)."""

from pathlib import Path
from typing import Any, cast

import msgspec
import trio
import trio.testing

from agentconnect.core.delivery.effects import PostText, Recorded
from agentconnect.core.delivery.posting import Reply
from agentconnect.core.redaction import shapes_in
from agentconnect.delivery.guarding import UnaskedGuard
from agentconnect.delivery.performing import TEXTS_AT_ONCE, Performer
from agentconnect.delivery.ports import Posts
from tests.core.delivery.entries import entry
from tests.shell.delivery.rig import OWNER, posted, running
from tests.support.fake_broker import Answer, open_broker


class Held:
    """Posts that wait until they are let go."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.go = trio.Event()

    async def text(self, room: str, key: str, text: str) -> Reply:
        self.texts.append(text)
        await self.go.wait()
        return Reply(status=200, event_id="$e", echo="created")


async def test_a_few_texts_are_in_memory_at_once(tmp_path: Path) -> None:
    """However many are in progress; the others are read when it is their turn."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        binding = await rig.store.bind(OWNER)
        names = [f"d{number}" for number in range(2 * TEXTS_AT_ONCE + 1)]
        for name in names:
            plain = msgspec.structs.replace(entry(name), binding=binding.id, text=f"text of {name}")
            assert isinstance(await rig.store.begin(plain), Recorded)
        held = Held()
        guard = UnaskedGuard(shapes_in)
        performer = Performer(rig.store, cast("Posts", held), guard, rig.desk.destinations)
        read: list[Any] = []

        async def post(name: str) -> None:
            post = PostText(room="!r:h", key=name, id=entry(name).id)
            read.append(await performer.perform(post))

        async with trio.open_nursery() as posts:
            for name in names:
                posts.start_soon(post, name)
            await rig.until(lambda: len(held.texts) == TEXTS_AT_ONCE)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert TEXTS_AT_ONCE == len(held.texts)
            held.go.set()
        assert sorted(f"text of {name}" for name in names) == sorted(held.texts)
        assert len(names) == len(read)


async def test_a_start_posts_the_text_that_was_accepted(tmp_path: Path) -> None:
    """Read from the record when it is posted, by the worker that comes after."""
    async with open_broker() as broker:
        async with running(broker, tmp_path) as rig:
            meta = await rig.bind()
            broker.script("messages", Answer(429, headers={"Retry-After": "3600"}))
            assert "retry" == (await rig.send("x", meta.binding, "ä\u2028😀"))["outcome"]
        async with running(broker, tmp_path) as rig:
            await rig.until(lambda: rig.entry("x")["outcome"] == "delivered")
            assert rig.entry("x")["text"] is None
        assert ["ä\u2028😀"] == posted(rig)
