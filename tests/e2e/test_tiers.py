"""Who may do what, with a real worker: the owner's cap, and a collaborator under the guard."""

import json
from pathlib import Path

from tests.e2e.test_worker import ask
from tests.support.relay import running_relay
from tests.support.worker import running_worker, until

SECRET = "sk-" + "a1B2c3D4" * 4


async def test_a_collaborator_is_served_and_gets_no_secret(tmp_path: Path) -> None:
    """Listed by the owner and attested by the relay: own conversation, answers looked through."""
    async with running_relay(tmp_path / "relay") as relay:
        carl, _link = await relay.relay.add_person(relay.room, "Carl", "collaborator")
        dora, _link = await relay.relay.add_person(relay.room, "Dora", "collaborator")
        listed = f"{carl}, nonsense"
        settings = {"AGENT_CONNECT_ACP_COLLABORATORS": listed}
        async with running_worker(relay.token, tmp_path, **settings) as worker:
            assert "hello" in (await ask(relay, "echo hello", sender=carl))
            withheld = await ask(relay, f"echo {SECRET}", sender=carl)
            assert SECRET not in withheld
            assert "was withheld" in withheld
            assert SECRET in await ask(relay, f"echo {SECRET}")
            assert "only answer my owner" in await ask(relay, "echo hello", sender=dora)
            await worker.says('"nonsense"')
            assert SECRET not in worker.output()
            await worker.stop()
        saved = json.loads((worker.state_dir / "sessions.json").read_text())["sessions"]
        assert {("owner", None), ("team", carl)} == {
            (entry["access_tier"], entry.get("sender")) for entry in saved
        }


async def test_a_cap_is_in_force_with_the_next_message(tmp_path: Path) -> None:
    """access.json lowers the owner too, breaks aloud, and is mended, without a restart."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        access = worker.state_dir / "access.json"
        assert "one" in await ask(relay, "echo one")
        access.write_text(json.dumps({"tierMap": {relay.owner: "guest"}}))
        assert "only answer my owner" in await ask(relay, "echo two")
        access.write_text("{")
        assert "only answer my owner" in await ask(relay, "echo three")
        await until(lambda: "last good one" in worker.status["detail"], "a word in the status")
        assert worker.status["state"] == "serving"
        access.unlink()
        assert "four" in await ask(relay, "echo four")
        await until(lambda: "access.json" not in worker.status["detail"], "all well again")
