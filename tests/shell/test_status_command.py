"""``agent-connect status``: verdicts, exit codes, hostile files, and what it must not load."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agentconnect.cli.main import main


def written(path: Path, **fields: Any) -> Path:
    """A status file as a worker writes it, fresh and serving unless told otherwise."""
    found = {
        "version": 1,
        "state": "serving",
        "detail": "adapter=acp repo=/r ws=/w",
        "pid": os.getpid(),
        "instance": "default",
        "adapter": "acp",
        "agent": "acp: Fake 1.0",
        "repo": "/srv/project",
        "started_at": time.time() - 60,
        "updated_at": time.time(),
        "uptime_seconds": 60.0,
        "heartbeat_seconds": 15.0,
        "tasks_running": 0,
        "oldest_task_seconds": 0.0,
        "last_error": None,
        "relay": {"state": "connected", "connected": True, "gateway": "https://relay.example"},
        **fields,
    }
    path.write_text(json.dumps({k: v for k, v in found.items() if v != "absent"}))
    return path


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({}, 0, "fresh: serving"),
        ({"state": "starting"}, 0, "fresh: starting"),
        ({"updated_at": 1.0}, 1, "stale: no sign of life"),
        ({"updated_at": "absent"}, 1, "stale: no sign of life"),
        ({"state": "error", "detail": "no token"}, 1, "no token"),
        ({"state": "stopped", "detail": "terminated"}, 3, "stopped: "),
        ({"state": "resting"}, 1, '"resting" is no state'),
    ],
)
def test_the_verdict_decides_the_exit_code(
    fields: dict[str, Any],
    code: int,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """0 fresh, 1 error or stale, 3 stopped."""
    assert code == main(["status", str(written(tmp_path / "s.json", **fields))])
    assert words in capsys.readouterr().out


def test_no_file_is_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody ever ran here, and the path that was looked at is named."""
    assert 3 == main(["status", str(tmp_path / "none.json")])
    out = capsys.readouterr().out
    assert "absent: there is no status file" in out
    assert str(tmp_path / "none.json") in out


def test_several_files_give_the_highest_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One look at all instances of a machine; the JSON is a list then."""
    fresh = written(tmp_path / "a.json")
    failed = written(tmp_path / "b.json", state="error")
    stopped = written(tmp_path / "c.json", state="stopped")
    assert 1 == main(["status", str(fresh), str(failed)])
    capsys.readouterr()
    assert 3 == main(["status", "--json", str(fresh), str(failed), str(stopped)])
    found = json.loads(capsys.readouterr().out)
    assert ["fresh", "error", "stopped"] == [one["verdict"] for one in found]


def test_what_a_person_wants_to_know_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Agent, folder, tasks, relay, deliveries of a later version, the last error."""
    main(
        [
            "status",
            str(
                written(
                    tmp_path / "s.json",
                    tasks_running=2,
                    oldest_task_seconds=3725.0,
                    relay={
                        "state": "standby",
                        "connected": False,
                        "gateway": "https://relay.example",
                        "recheck_s": 15.0,
                        "pending_results": 3,
                        "error": "it answered 503",
                        "newer": [1],
                    },
                    delivery={
                        "listener": "down",
                        "last_delivered_at": time.time() - 120,
                        "reason": "no export folder",
                        "rows": [1],
                        "state": "disabled",
                    },
                    last_error={"at": time.time() - 120, "message": "it broke"},
                    novelty=7,
                )
            ),
        ]
    )
    out = capsys.readouterr().out
    for words in (
        "acp: Fake 1.0",
        "/srv/project",
        "2 in work or waiting, the oldest for 1 h 2 min",
        "standby, https://relay.example; another worker polls with this token; looks again in 15 s",
        "answers that wait to be posted: 3",
        "it answered 503",
        "state disabled, last delivered 2 min ago, listener down, reason no export folder",
        "2 min ago: it broke",
    ):
        assert words in out


def test_channel_workers_are_told_by_workspace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its state, its channels, what came of deliveries; a strange block costs nothing else."""
    main_worker = {
        "state": "running",
        "channels": {"ops": "running", "mail\x1b[31m": "failed"},
        "in_flight": 2,
        "delivered": 7,
        "failed": 1,
        "skipped": 3,
        "last_code": "channel_delivery_rejected",
    }
    started = {"state": "starting", "channels": {}, "delivered": 0, "failed": 0, "last_code": ""}
    workers = {"side": started, "main": main_worker, "odd": 5, "bare": {"channels": [1]}}
    path = written(tmp_path / "s.json", channels={"workspaces": workers})
    assert main(["status", str(path)]) == 0
    out = capsys.readouterr().out
    told = [line.strip() for line in out.splitlines() if line.startswith("  channels")]
    assert [
        "channels    bare: unknown",
        "channels    main: running; mail?[31m failed, ops running; 2 in flight, 7 delivered, "
        "1 failed, 3 with nothing to send, the last failure was channel_delivery_rejected",
        "channels    odd: unreadable",
        "channels    side: starting; 0 delivered",
    ] == told
    assert "nothing to say" not in out


def test_json_is_one_object_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks that this version does not know come through."""
    path = written(tmp_path / "s.json", delivery={"state": "enabled"})
    assert 0 == main(["status", "--json", str(path)])
    found = capsys.readouterr()
    assert "" == found.err
    one = json.loads(found.out)
    assert ("fresh", 0, str(path)) == (one["verdict"], one["exit_code"], one["file"])
    assert {"state": "enabled"} == one["status"]["delivery"]
    assert "running" == one["process"]


def test_a_process_that_is_gone_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rule of staleness stands, but a reader on the same machine knows more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert 0 == main(["status", str(written(tmp_path / "s.json", pid=ended.pid))])
    assert f"but no process {ended.pid} runs on this machine" in capsys.readouterr().out


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"pid": "x"}', b"{}" * 9],
)
def test_a_file_that_is_no_status_is_an_error(
    raw: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, exit 1, no traceback."""
    path = tmp_path / "s.json"
    path.write_bytes(raw)
    assert 1 == main(["status", str(path)])
    assert "error: the status file cannot be understood" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["folder", "pipe", "huge", "link"])
def test_what_is_no_file_is_an_error_and_never_waited_for(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe without a writer, a folder, a file without end, a link to nothing."""
    path = tmp_path / "s.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        path.symlink_to(tmp_path / "nowhere")
    assert 1 == main(["status", str(path)])
    assert "error: " in capsys.readouterr().out


def test_texts_of_the_file_do_not_reach_the_terminal_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Escape sequences and endless texts of a file that anybody may have written."""
    evil = "\x1b[2Jgone\x07\u202e" + "x" * 5000
    error = {"at": 1.0, "message": evil}
    path = written(
        tmp_path / "s.json",
        state="error",
        detail=evil,
        repo=evil,
        agent=evil,
        last_error=error,
        relay={"state": evil, "gateway": evil, "error": evil},
        **{evil: {evil: evil}},
    )
    main(["status", str(path)])
    out = capsys.readouterr().out
    assert not {c for c in out if not c.isprintable()} - {"\n"}
    assert max(map(len, out.splitlines())) < 1100


@pytest.mark.parametrize("number", ["1e308", "-1e308", "1e400", "-5"])
def test_odd_numbers_are_no_crash(
    number: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any clock and any span that JSON can hold."""
    path = written(tmp_path / "s.json")
    found = json.loads(path.read_text())
    for name in ("updated_at", "uptime_seconds", "oldest_task_seconds", "heartbeat_seconds"):
        for put in (name, None):
            raw = json.dumps({**found, "tasks_running": 1, (put or "pid"): "@"})
            path.write_text(raw.replace('"@"', number))
            assert main(["status", str(path)]) in (0, 1)
            assert main(["status", "--json", str(path)]) in (0, 1)
    assert "Traceback" not in capsys.readouterr().err


def test_without_a_file_the_settings_say_where(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default workspace, the config file's, and the setting for the file itself."""
    assert 3 == main(["status"])
    assert str(home / ".agent-connect/workspace/status.json") in capsys.readouterr().out
    config = tmp_path / "config.env"
    config.write_text(f"AGENT_CONNECT_WORKSPACE={tmp_path}/ws\n")
    main(["status", "--config", str(config)])
    assert str(tmp_path / "ws/status.json") in capsys.readouterr().out
    config.write_text(f"AGENT_CONNECT_STATUS_FILE={tmp_path}/own.json\n")
    written(tmp_path / "own.json")
    assert 0 == main(["--config", str(config), "status"])
    assert not (home / ".agent-connect").exists()


def test_a_named_config_that_is_missing_is_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As everywhere."""
    assert 2 == main(["status", "--config", str(tmp_path / "none")])
    assert "" == capsys.readouterr().out


def command(*arguments: str) -> subprocess.Popen[str]:
    """The command as a process whose stdout is no terminal."""
    return subprocess.Popen(
        [sys.executable, "-m", "agentconnect", "status", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_watch_prints_a_block_for_each_change_and_ends_with_the_last_verdict(
    tmp_path: Path,
) -> None:
    """Fresh, then stopped; Ctrl-C; 3."""
    path = written(tmp_path / "s.json")
    with command("--watch", "--json", str(path)) as watching:
        assert watching.stdout is not None
        assert "fresh" == json.loads(watching.stdout.readline())["verdict"]
        written(tmp_path / "s.new", state="stopped").replace(path)
        assert "stopped" == json.loads(watching.stdout.readline())["verdict"]
        watching.send_signal(signal.SIGINT)
        out, err = watching.communicate(timeout=60)
    assert ("", "") == (out, err)
    assert 3 == watching.returncode


def test_watch_ends_when_nobody_reads_any_more(tmp_path: Path) -> None:
    """``status --watch | head -1`` leaves no traceback."""
    path = written(tmp_path / "s.json")
    with command("--watch", str(path)) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        assert watching.stdout.readline().startswith("fresh")
        watching.stdout.close()
        written(tmp_path / "s.new", state="stopped").replace(path)
        watching.wait(60)
        assert "" == watching.stderr.read()


def test_status_loads_neither_trio_nor_httpx(tmp_path: Path) -> None:
    """Supervisors run it every few seconds."""
    path = written(tmp_path / "s.json")
    code = (
        "import sys\n"
        "from agentconnect.cli.main import main\n"
        f"code = main(['status', {str(path)!r}])\n"
        "heavy = {'trio', 'httpx', 'asyncio', 'starlette', 'sqlite3', 'ssl'}\n"
        "print(code, sorted(heavy.intersection(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "0 []" == done.stderr.strip()
