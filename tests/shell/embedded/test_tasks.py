"""Tasks of the embedded relay over HTTP: polling, acks, results."""

from pathlib import Path

from tests.support.relay import running_relay


async def test_message_becomes_a_task_and_its_answer_a_message(tmp_path: Path) -> None:
    """A message in a room with one agent is served, acked with 🫡, and answered in the room."""
    async with running_relay(tmp_path) as relay:
        source = await relay.say("hello")
        (task,) = await relay.poll()
        assert task["task"] == "hello"
        assert (await relay.ack(task["id"])).status_code == 200
        assert await relay.relay.reactions(source) == [("🫡", relay.agent)]
        answer = await relay.complete(task["id"], "Hi there.")
        assert answer.json() == {"ok": True}
        assert await relay.bodies() == ["hello", "Hi there."]
        assert await relay.poll() == []
