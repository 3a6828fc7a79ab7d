"""Tasks in, answers out, against a broker that behaves."""

from pathlib import Path

from tests.shell.relay.rig import running
from tests.support.fake_broker import open_broker, wire_task


async def test_a_task_is_acked_handed_over_and_answered(tmp_path: Path) -> None:
    """One task goes the whole way, recorded before it is acked and done at the end."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.serve(wire_task("t1", lease_id="L1"))
        (task,) = await rig.tasks()
        (ack,) = await broker.seen("ack")
        assert ack.path == "/v1/tasks/t1/ack"
        assert ack.body == {"id": "t1", "lease_id": "L1", "durable": True}
        placed = await rig.relay.rooms.message(task.room_id, "⏳ On it...", key="task/t1")
        assert placed.ok
        edited = await rig.relay.rooms.edit(task.room_id, placed.event_id, "done")
        assert edited.ok
        await rig.relay.results.complete(task, "[REPLIED]\n\ndone", base_dir=str(tmp_path))
        await broker.until(lambda: "t1" in broker.results)
        assert broker.results["t1"] == {"id": "t1", "body": "[REPLIED]\n\ndone"}
        assert broker.bodies("!r:h") == ["done"]
        status = await rig.state("connected")
        assert status.connected
        assert broker.base.removesuffix("/relay") in status.gateway
        (beat,) = await broker.seen("heartbeat")
        assert beat.body["client"] == "agentconnect"
        assert beat.headers["user-agent"] == "sutando-gateway-client/1.0"
