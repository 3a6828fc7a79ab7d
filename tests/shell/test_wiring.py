"""Settings to parts: what the start waits for, and what it says of the token."""

import logging
from pathlib import Path

import pytest
import trio

from agentconnect import wiring
from agentconnect.config import settings as config
from agentconnect.status.writer import StatusWriter
from agentconnect.stopping import Stop
from agentconnect.store.journal import open_journal
from agentconnect.store.layout import Layout

SECRET = "s3cret-of-this-test"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(state_dir=tmp_path / "ws")
    made.prepare()
    return made


@pytest.mark.parametrize("damage", [b"", b"x" * 300], ids=["empty", "garbage"])
async def test_an_unusable_journal_is_waited_for_and_said(
    layout: Layout, damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never taken for a new one; once it is restored, the start goes on."""
    monkeypatch.setattr(wiring, "JOURNAL_RETRY_S", 0.1)
    async with open_journal(layout.journal) as journal:
        mine = journal.worker_id
    aside = layout.journal.with_name("aside.db")
    layout.journal.rename(aside)
    layout.journal.write_bytes(damage)
    status = StatusWriter(layout.status, 15.0)

    async def restore() -> None:
        while status.current.state != "error":
            await trio.sleep(0.01)
        assert "journal.db" in status.current.detail
        assert layout.journal.read_bytes() == damage
        aside.rename(layout.journal)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(restore)
            async with wiring.journal(layout, status, Stop()) as journal_again:
                assert journal_again is not None
                assert journal_again.worker_id == mine
                assert status.current.state == "starting"


async def test_a_stop_ends_the_wait_for_the_journal(layout: Layout) -> None:
    """Nobody has to kill a worker that waits for a disk."""
    layout.journal.write_bytes(b"x" * 300)
    status, stop = StatusWriter(layout.status, 15.0), Stop()

    async def ask() -> None:
        while status.current.state != "error":
            await trio.sleep(0.01)
        stop.ask("terminated")

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            async with wiring.journal(layout, status, stop) as journal:
                assert journal is None


def test_the_start_says_where_the_token_came_from_and_never_what_it_is(
    layout: Layout, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line names the layer; a token that crosses a network in clear text is warned about."""
    caplog.set_level(logging.INFO, "agentconnect")
    file = tmp_path / "config.env"
    loaded = config.load(
        {},
        {"AGENT_CONNECT_TOKEN": f"http://gw.example/relay|{SECRET}"},
        config_file=file,
    )
    built = wiring._relay_config(loaded, layout, str(tmp_path), lambda secret: None)
    assert caplog.text.count("the token is AGENT_CONNECT_TOKEN of the config file") == 1
    assert "clear text" in caplog.text
    assert SECRET not in caplog.text + repr(built) + repr(loaded)
    assert built.token_file == file
    assert str(file) in built.private_files
