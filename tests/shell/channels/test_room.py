"""The adapter ``room`` against the relay that ships with us."""

from pathlib import Path

import pytest

from agentconnect.core.channels.ipc import Channel
from agentconnect.core.channels.sending import DeliveryError
from tests.shell.channels.doubles import out, running
from tests.support.relay import Relay, running_relay


def room(relay: Relay, secret: str = "") -> Channel:
    return Channel(
        type="room",
        options={"base": relay.base},
        secrets={"token": relay.token, "secret": secret or relay.secret},
    )


async def test_people_in_the_room_read_it(tmp_path: Path) -> None:
    """In pieces where it is long; joined they are the text."""
    text = "words and more words\n" * 1000
    async with running_relay(tmp_path) as relay, running(room(relay)) as adapter:
        await adapter.send(out("chat", relay.room, text))
        found = await relay.bodies()
        assert "the relay takes the token" == await adapter.check()
    assert text == "".join(found)
    assert 2 == len(found)


async def test_a_room_that_is_not_ours_and_a_bad_token_are_refused_for_good(
    tmp_path: Path,
) -> None:
    """Nothing is posted."""
    async with running_relay(tmp_path) as relay:
        for channel, target in ((room(relay), "!none:x"), (room(relay, "bad"), relay.room)):
            async with running(channel) as adapter:
                with pytest.raises(DeliveryError, match="HTTP 40") as refused:
                    await adapter.send(out("chat", target))
                assert "permanent" == refused.value.disposition
        async with running(room(relay, "bad")) as adapter:
            with pytest.raises(DeliveryError, match="HTTP 401"):
                await adapter.check()
        assert [] == await relay.bodies()
