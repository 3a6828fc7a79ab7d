"""``agent-connect deliveries``: the record for people and programs, and what it must not touch."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentconnect.cli.main import main
from agentconnect.core.delivery.bindings import Binding
from agentconnect.core.delivery.ledger import (
    BindingId,
    DeliveryId,
    Entry,
    Part,
    PartKind,
    PartState,
    Reason,
    WorkerId,
    ended,
    with_part,
)
from agentconnect.core.task import Tier
from agentconnect.store import delivery_rows as rows
from agentconnect.store.sqlite_file import create

MINE = WorkerId("a" * 32)


def _entry(name: str, **changes: Any) -> Entry:
    parts = (
        Part(kind=PartKind.FILE, name="r\x1b[2J.pdf", state=PartState.POSTED, event_id="$1"),
        Part(kind=PartKind.TEXT),
    )
    return Entry(
        id=DeliveryId(name),
        worker_id=MINE,
        binding=BindingId(f"{MINE}.b"),
        room="!r:h",
        folder=f"{MINE}.b",
        first_seen=time.time() - 3600,
        fingerprint="0",
        parts=parts,
        **changes,
    )


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with a record of three."""
    monkeypatch.setenv("AGENT_CONNECT_WORKSPACE", str(tmp_path))
    done = with_part(_entry("done"), 1, state=PartState.POSTED, event_id="$2")

    def fill(connection: Any) -> None:
        rows.put_meta(connection, "worker_id", MINE)
        binding = Binding(
            id=BindingId(f"{MINE}.b"),
            room="!r:h",
            tier=Tier.OWNER,
            created=0.0,
            last_turn=0.0,
            expires=time.time() + 60,
            folder=f"{MINE}.b",
        )
        rows.put_binding(connection, binding)
        rows.insert(connection, _entry("open"))
        rows.insert(connection, ended(done, time.time()))
        rows.insert(connection, ended(_entry("bad"), time.time(), Reason.EXPIRED, "too late"))

    create(tmp_path / "deliveries.db", rows.SCHEMA, fill)
    return tmp_path


def test_a_line_for_each(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order first seen: state, parts, age, room, id."""
    assert 0 == main(["deliveries"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [["in", "progress", "1/2"], ["delivered", "2/2"], ["expired", "1/2"]] == [
        lines[0][:3],
        lines[1][:2],
        lines[2][:2],
    ]
    assert ["open", "done", "bad"] == [line[-1] for line in lines]


def test_one_of_them(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All that is known but its text; nothing that a terminal would obey."""
    assert 0 == main(["deliveries", "bad"])
    out = capsys.readouterr().out
    for words in ("expired", "too late", "!r:h", "owner", "posted: file r?[2J.pdf $1", "owed"):
        assert words in out
    assert "\x1b" not in out


def test_for_programs(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole record, or one entry."""
    assert 0 == main(["deliveries", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (1, MINE) == (found["version"], found["worker_id"])
    assert ["open", "done", "bad"] == list(found["deliveries"])
    assert 0 == main(["deliveries", "done", "--json"])
    assert "delivered" == json.loads(capsys.readouterr().out)["outcome"]


def test_what_is_not_there(
    workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An unknown id, no record, a damaged one: a sentence and 1."""
    assert 1 == main(["deliveries", "none\x1b"])
    (workspace / "deliveries.db").write_bytes(b"x" * 4096)
    assert 1 == main(["deliveries"])
    monkeypatch.setenv("AGENT_CONNECT_WORKSPACE", str(tmp_path / "elsewhere"))
    assert 1 == main(["deliveries"])
    assert not (tmp_path / "elsewhere").exists()
    assert 2 == main(["deliveries", "a", "b"])
    said = capsys.readouterr().err
    assert "Traceback" not in said
    for words in ('"none?"', "deliveries.db", "no record of deliveries", "unknown argument"):
        assert words in said


def test_looking_changes_nothing(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file is made beside the store, none is written to."""
    before = {path.name: path.stat().st_mtime_ns for path in workspace.iterdir()}
    assert 0 == main(["deliveries", "--json"])
    assert before == {path.name: path.stat().st_mtime_ns for path in workspace.iterdir()}


def test_it_loads_no_loop(workspace: Path) -> None:
    """Neither trio nor httpx."""
    script = (
        "import sys; from agentconnect.cli.main import main; code = main(['deliveries']);"
        " sys.exit(code or len({'trio', 'httpx'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=dict(os.environ), capture_output=True, check=False
    )
    assert (0, b"") == (done.returncode, done.stderr)
