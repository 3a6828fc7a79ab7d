"""Messages that are out of place or out of shape: each costs itself and nothing else."""

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from agentconnect.adapters import acp_pictures
from agentconnect.adapters.acp_pictures import save_picture
from agentconnect.core.turns.events import Plan, Reason
from tests.shell.acp.rig import alive, number_in, running, until

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ({}, {"outcome": "selected", "optionId": "no"}),
        ({"options": []}, {"outcome": "cancelled"}),
    ],
    ids=["refusable", "no way to refuse"],
)
async def test_a_request_amid_a_replay_is_refused_and_not_told(
    options: dict[str, Any], outcome: dict[str, str], tmp_path: Path
) -> None:
    """There is no turn that it could belong to, though its path is inside."""
    proof = tmp_path / "proof"
    async with running(tmp_path) as rig:
        await rig.turn("#say one")
    async with running(tmp_path, {"load_asks": str(proof)} | options) as rig:
        found = await rig.turn("#say two")
    assert outcome == json.loads(proof.read_text())
    assert ("two", []) == (found.answer, found.asked)


@pytest.mark.parametrize("params", ["[]", "7", '{"sessionId": 7}'])
async def test_a_request_of_the_wrong_shape_is_told_so(params: str, tmp_path: Path) -> None:
    """-32602, and the turn goes on; nothing is decided."""
    async with running(tmp_path) as rig:
        found = await rig.turn(f"#ask-params {params}\n#say on")
    assert ("[-32602]on", []) == (found.answer, found.asked)


async def test_a_request_without_a_call_is_refused(tmp_path: Path) -> None:
    """It names nothing, so nothing is inside."""
    async with running(tmp_path) as rig:
        found = await rig.turn("#ask-json null\n#ask-json [[]]\n#say on")
    assert "[no][no]on" == found.answer
    assert ["an operation"] * 2 == [asked.title for asked in found.asked]


async def test_an_update_of_the_wrong_shape_is_dropped(tmp_path: Path) -> None:
    """What stands around it is heard."""
    strange = ("7", "null", "[]", '"x"', "{}", '{"sessionUpdate": 7}')
    script = "\n".join(f"#update {each}" for each in strange)
    async with running(tmp_path) as rig:
        found = await rig.turn(f"#say a\n{script}\n#say b")
    assert ("ab", []) == (found.answer, found.notices)


async def test_a_plan_is_an_event_and_no_text(tmp_path: Path) -> None:
    """The whole list each time; entries of the wrong shape are skipped."""
    entries = [{"content": "look", "status": "pending", "priority": "low"}, 7, {"content": 8}]
    plan = json.dumps({"sessionUpdate": "plan", "entries": entries})
    async with running(tmp_path) as rig:
        found = await rig.turn(f"#update {plan}\n#say done")
    assert "done" == found.answer
    assert [(("look", "pending"), ("", ""))] == [
        event.entries for event in found.events if isinstance(event, Plan)
    ]


async def test_a_session_without_an_id_fails_the_turn(tmp_path: Path) -> None:
    """With a sentence."""
    results: list[Any] = [None, {}, {"sessionId": 7}, []]
    for number, result in enumerate(results):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with running(folder, {"new_result": result}) as rig:
            found = await rig.turn("#say never")
        assert Reason.FAILED is found.done.reason
        assert "opened a session without an id" in found.done.note


async def test_an_agent_that_will_not_close_is_ended_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It offered it; that it refuses is a line in the log."""
    caplog.set_level(logging.INFO)
    options = {"close": True, "close_error": [-32603, "busy"]}
    async with running(tmp_path, options, session_memory=False) as rig:
        pid = number_in((await rig.turn("#pid")).answer, "pid")
        await until(lambda: not alive(pid))
    assert f"agent {pid} did not close a session: busy" in caplog.text


@pytest.mark.parametrize("uri", ["http://[", "file:///%ff", "file:", "file://elsewhere/x", ""])
async def test_a_link_that_leads_nowhere_is_named(uri: str, tmp_path: Path) -> None:
    """Neither a file of this machine nor an address on the web."""
    async with running(tmp_path) as rig:
        found = await rig.turn(f"#link {uri} the-name")
    (notice,) = found.notices
    assert "the-name" in notice
    assert "cannot be sent from here" in notice


@pytest.mark.parametrize(
    ("content", "ending"),
    [
        (PNG + bytes(9), "png"),
        (b"\xff\xd8\xff\xe0", "jpg"),
        (b"GIF87a..", "gif"),
        (b"GIF89a..", "gif"),
        (b"RIFF....WEBPVP8 ", "webp"),
        (b"<svg/>", ""),
        (b"RIFF....WAVE", ""),
        (b"", ""),
    ],
)
def test_a_picture_is_known_by_its_first_bytes(content: bytes, ending: str, tmp_path: Path) -> None:
    """Whatever the agent calls it; private, and whole."""
    found = save_picture(tmp_path / "a" / "b", 3, base64.b64encode(content).decode())
    if not ending:
        assert found is None
        return
    assert found == str(tmp_path / "a" / "b" / f"picture-3.{ending}")
    assert content == Path(found).read_bytes()
    assert (0o600, 0o700) == (
        Path(found).stat().st_mode & 0o777,
        Path(found).parent.stat().st_mode & 0o777,
    )


def test_what_is_no_picture_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not base64, too big before or after decoding, or no place to put it."""
    whole = base64.b64encode(PNG + bytes(100)).decode()
    assert save_picture(tmp_path / "x", 1, "no base64!") is None
    assert save_picture(tmp_path / "x", 1, "é") is None
    (tmp_path / "file").touch()
    assert save_picture(tmp_path / "file", 1, whole) is None
    for limit in (107, 10):
        monkeypatch.setattr(acp_pictures, "MAX_IMAGE_BYTES", limit)
        assert save_picture(tmp_path / "x", 1, whole) is None
    monkeypatch.setattr(acp_pictures, "MAX_IMAGE_BYTES", 108)
    assert save_picture(tmp_path / "x", 1, whole) is not None
