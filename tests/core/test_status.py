"""How a status file is judged (worker.md §15)."""

import json

import pytest

from agentconnect.core.status import EXIT_CODES, RelayBlock, Verdict, is_stale, judge, relay_block
from agentconnect.relay import RelayStatus

NOW = 1000.0


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"state": "serving", "updated_at": NOW - 45, "heartbeat_seconds": 15}, Verdict.FRESH),
        ({"state": "starting", "updated_at": NOW, "heartbeat_seconds": 15}, Verdict.FRESH),
        ({"state": "serving", "updated_at": NOW - 46, "heartbeat_seconds": 15}, Verdict.STALE),
        ({"state": "serving", "heartbeat_seconds": 15}, Verdict.STALE),
        ({"state": "serving", "updated_at": NOW + 99, "heartbeat_seconds": 15}, Verdict.FRESH),
        ({"state": "error", "updated_at": NOW}, Verdict.ERROR),
        ({"state": "stopped", "updated_at": NOW - 9999}, Verdict.STOPPED),
        ({"state": "paused", "updated_at": NOW}, Verdict.ERROR),
        ({"state": "serving", "updated_at": NOW, "from_tomorrow": {"a": 1}}, Verdict.FRESH),
    ],
)
def test_verdict(fields: dict[str, object], verdict: Verdict) -> None:
    """Fresh, stale, stopped, error; unknown fields are ignored."""
    assert verdict == judge(json.dumps(fields).encode(), NOW).verdict


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"x"', b'{"pid": "x"}', b"\xff", b"[" * 9999])
def test_unreadable_file_is_an_error(raw: bytes) -> None:
    """A file that cannot be understood is never taken for a healthy worker."""
    assert Verdict.ERROR == judge(raw, NOW).verdict


def test_absent_file() -> None:
    """No file: no worker."""
    assert (Verdict.ABSENT, 3) == (judge(None, NOW).verdict, judge(None, NOW).exit_code)


def test_exit_codes() -> None:
    """0 fresh, 1 error or stale, 3 stopped or absent; every verdict has one."""
    assert set(EXIT_CODES) == set(Verdict)
    assert [0, 1, 1, 3, 3] == [EXIT_CODES[verdict] for verdict in Verdict]


def test_never_written_is_stale() -> None:
    """Without a time there is no proof of life."""
    assert is_stale(None, 15.0, NOW)


def test_no_snapshot_no_block() -> None:
    """Before the relay client exists the block is null."""
    assert relay_block(None) is None


def test_relay_block_is_the_snapshot_without_its_instance() -> None:
    """The worker copies exactly the relay client's fields but ``instance``."""
    assert set(RelayStatus.__struct_fields__) - {"instance"} == set(RelayBlock.__struct_fields__)
