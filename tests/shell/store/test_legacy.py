"""The reference client's journal is imported once, whole, and by line feeds only."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.relay.journal import State
from agentconnect.core.task import TaskId
from agentconnect.store.journal import open_journal
from agentconnect.store.legacy import parse_legacy

SEPARATORS = "a\u2028b\u2029c\u0085d\x0be"


def line(task_id: str, state: str, **more: object) -> bytes:
    return json.dumps(
        {"id": task_id, "state": state, "ts": 1.5, **more}, ensure_ascii=False
    ).encode()


def legacy_file(folder: Path, *lines: bytes) -> Path:
    path = folder / "journal.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


async def test_an_upgrade_keeps_unsent_answers_and_the_memory_of_sent_ones(tmp_path: Path) -> None:
    """Line separators of Unicode inside an answer do not lose it, as they did in the reference."""
    path = legacy_file(
        tmp_path,
        line("done", "done"),
        line("owed", "pending", room="!r:h", result={"id": "owed", "body": SEPARATORS}),
        line(
            "refused", "pending", result={"id": "refused", "status": "rejected", "error_code": "X"}
        ),
        line("taken", "accepted", room="!r:h"),
    )
    async with open_journal(tmp_path / "journal.db", legacy=path) as journal:
        assert [entry.id for entry in journal.pending()] == ["owed", "refused"]
        assert json.loads(journal.pending()[0].result) == {"id": "owed", "body": SEPARATORS}
        assert json.loads(journal.pending()[1].result)["status"] == "rejected"
        done = journal.entry(TaskId("done"))
        assert done is not None
        assert done.state is State.DONE
        assert journal.stranded(TaskId("taken"))
    names = sorted(entry.name for entry in tmp_path.iterdir())  # noqa: ASYNC240
    assert names == [
        "journal.db",
        "journal.jsonl.imported",
    ]


async def test_the_import_happens_once_and_newer_knowledge_wins(tmp_path: Path) -> None:
    """A file that comes back (a restored backup) does not make a finished task owed again."""
    path = legacy_file(tmp_path, line("t", "pending", result={"id": "t", "body": "x"}))
    text = path.read_bytes()
    async with open_journal(tmp_path / "journal.db", legacy=path) as journal:
        journal.retire(TaskId("t"))
    path.write_bytes(text)
    async with open_journal(tmp_path / "journal.db", legacy=path) as journal:
        assert journal.pending() == []
        assert journal.counts().done == 1


async def test_damaged_lines_are_kept_aside(tmp_path: Path) -> None:
    """They cost no other line, and nothing of them is thrown away."""
    bad = [b"{torn", b"\xff\xfe", b'{"id":"../x","state":"done"}', b'{"id":"p","state":"pending"}']
    path = legacy_file(tmp_path, line("ok", "done"), *bad, b"", line("fine", "accepted"))
    async with open_journal(tmp_path / "journal.db", legacy=path) as journal:
        assert journal.entry(TaskId("ok")) is not None
        assert journal.stranded(TaskId("fine"))
    assert (tmp_path / "journal.jsonl.bad").read_bytes().split(b"\n")[:-1] == bad


async def test_an_unreadable_old_journal_is_not_taken_for_none(tmp_path: Path) -> None:
    """Present but unreadable: fail closed, and the next start finds it as it was."""
    path = tmp_path / "journal.jsonl"
    path.mkdir()
    with pytest.raises(StoreUnreadableError):
        async with open_journal(tmp_path / "journal.db", legacy=path):
            raise AssertionError("opened over an unread journal")
    assert path.is_dir()


@given(st.lists(st.binary(max_size=60) | st.builds(line, st.text(max_size=5), st.text(max_size=8))))
def test_any_bytes_are_rows_or_damaged_lines(lines: list[bytes]) -> None:
    """Nothing raises, and no line vanishes unless a newer one of its id replaced it."""
    raw = b"\n".join(lines)
    found = parse_legacy(raw)
    given_lines = [text for text in raw.split(b"\n") if text.strip()]
    assert len(found.damaged) + len(found.rows) <= len(given_lines)
    assert set(found.damaged) <= set(given_lines)
