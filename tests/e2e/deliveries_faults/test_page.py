"""What the page is told of late results, by a real worker beside the relay."""

from pathlib import Path
from typing import Any

import pytest

from agentconnect.store.delivery_record import posting_keys
from tests.e2e.deliveries_faults.rig import Late, late
from tests.support.worker import until


async def shown(case: Late) -> dict[str, Any]:
    """Text → the mark of what arrived later, of the agent's messages on the page."""
    async with case.relay.visitor() as browser:
        page = (await browser.get(f"/page/rooms/{case.relay.room}/messages")).json()
    return {m["body"]: m["late"] for m in page["messages"] if m["sender"] == case.relay.agent}


async def test_a_late_result_is_marked_and_an_answer_is_not(tmp_path: Path) -> None:
    """The relay sees by itself that no turn is open; it names the request that came before."""
    async with late(tmp_path) as case:
        await case.listening()
        case.put(await case.told(), "a1", "It is done.")
        await case.came(1)
        found = await shown(case)
        assert {"said: hello", "It is done."} == set(found)
        assert None is found["said: hello"]
        assert ("hello", "Olivia") == (found["It is done."]["text"], found["It is done."]["sender"])


@pytest.mark.parametrize("beside", [True, False])
async def test_a_late_result_during_another_turn(tmp_path: Path, beside: bool) -> None:
    """A worker beside the relay tells which keys are late; a relay alone cannot know it."""
    store = tmp_path / "workspace" / "deliveries.db"

    def is_late(key: str) -> bool:
        return key in posting_keys(store)

    async with late(tmp_path, is_late=is_late if beside else None) as case:
        await case.listening()
        to = await case.told()
        asked = await case.relay.say("wait go")
        await until(lambda: "wait go" == case.notes("told.jsonl")[-1]["request"], "a turn")
        case.put(to, "a1", "It is done.")
        await case.came(1)
        case.let("go")
        await case.closed(asked)
        found = await shown(case)
        assert None is found["said: wait go"]
        assert ("hello" if beside else None) == (found["It is done."] or {}).get("text")
