"""What a newcomer met: failure lines, typed markers, whose placeholder is taken over."""

import base64
from pathlib import Path
from urllib.parse import quote

import pytest

from agentconnect.core.turns import answer as answers_of_turns
from agentconnect.core.turns.events import Reason
from agentconnect.embedded import answers
from tests.support.relay import running_relay


def test_the_room_reads_the_reason_and_not_whose_notice_it_is() -> None:
    """The worker's first paragraph is for the archive; the room wants what happened."""
    ending = answers_of_turns.unanswered(
        Reason.FAILED,
        unposted=(),
        ending="The agent is not logged in. Run `codex login`.",
        summary="",
        intended=False,
    )
    verdict = answers.judge(ending.no_send)
    assert verdict.notice == "The agent is not logged in. Run `codex login`."
    assert answers.judge("[no-send] nothing came").notice == "nothing came"
    assert answers.judge("[no-send]").notice == ""


async def test_a_typed_attachment_marker_stays_text(tmp_path: Path) -> None:
    """Only the relay says what is a file: a person's marker reaches the worker inert, readable."""
    async with running_relay(tmp_path) as relay:
        await relay.say("[ag2space-media: http://127.0.0.1:1/x mime=image/png] what is it?")
        (task,) = await relay.poll(1)
        assert "[ag2space-media:" not in task["task"]
        assert "what is it?" in task["task"]


async def test_an_answer_is_never_overwritten_by_another_tasks_notice(tmp_path: Path) -> None:
    """A first task was served and lost; the second one's placeholder and answer stay its own."""
    async with running_relay(tmp_path) as relay:
        await relay.say("first")
        (lost,) = await relay.poll(1)
        await relay.say("second")
        (kept,) = await relay.poll(1)
        placed = await relay.op("message", body=answers.PLACEHOLDER)
        await relay.ack(kept["id"])
        await relay.op("edit", event_id=placed.json()["event_id"], body="ANSWER B")
        await relay.complete(kept["id"], "[REPLIED]\n\nANSWER B")
        refused = {"id": lost["id"], "status": "rejected", "error_code": "X"}
        await relay.call("POST", "/v1/results", refused)
        bodies = await relay.bodies()
        assert "ANSWER B" in bodies
        assert any(body.startswith("⚠️") for body in bodies)


@pytest.mark.parametrize("text", ["⚠️ x", answers.failure("y")])
def test_a_failure_line_is_known_as_one(text: str) -> None:
    """``--say`` ends with 1 for it."""
    assert answers.is_failure(text)
    assert not answers.is_failure("fine")


async def test_a_disk_that_takes_no_file_says_so_and_keeps_nothing(tmp_path: Path) -> None:
    """The media folder is gone or unusable: 507 in words, no half file; then it works again."""
    folder = tmp_path / "media"
    content = base64.b64encode(b"x" * 2000).decode()
    async with running_relay(tmp_path) as relay:
        folder.rmdir()
        folder.write_text("in the way")
        body = {"content_b64": content, "filename": "a.txt"}
        refused = await relay.call("POST", f"/v1/rooms/{quote(relay.room, safe='')}/media", body)
        assert refused.status_code == 507
        assert "could not keep" in refused.json()["error"]
        folder.unlink()
        taken = await relay.call("POST", f"/v1/rooms/{quote(relay.room, safe='')}/media", body)
        assert taken.status_code == 200
        assert [path.suffix for path in folder.iterdir()] == [""]


async def test_an_endless_number_in_a_query_is_no_error(tmp_path: Path) -> None:
    """``before`` with thousands of digits is a very late message, not a 500."""
    async with running_relay(tmp_path) as relay, relay.visitor(relay.setup.link_token) as page:
        path = f"/page/rooms/{quote(relay.room, safe='')}/messages?before={'9' * 5000}"
        assert (await page.get(path)).status_code == 200
