"""What an agent sends after its turn, as the room page shows it."""

from pathlib import Path
from typing import Any

import trio
from playwright.sync_api import expect

from tests.e2e.browser.stage import NARROW, WIDE, Stage, Windows, finish, placeholder, play
from tests.support.relay import Relay

ASKED = "Build the docs in the background and send me the report"


async def post(relay: Relay, number: int, text: str) -> None:
    """A part of a delivery, as a worker posts it."""
    headers = {"idempotency-key": f"{number:064x}"}
    path = f"/v1/rooms/{relay.room}/messages"
    answer = await relay.call("POST", path, {"body": text}, headers=headers)
    assert answer.status_code == 200, answer.text


async def post_file(relay: Relay, number: int, name: str) -> None:
    """The same of a file."""
    headers = {"idempotency-key": f"{number:064x}"}
    body = {"content_b64": "IyBSZXBvcnQK", "filename": name}
    answer = await relay.call("POST", f"/v1/rooms/{relay.room}/media", body, headers=headers)
    assert answer.status_code == 200, answer.text


async def works_keyed(relay: Relay, task: dict[str, Any]) -> None:
    """A turn whose worker posts under keys, as ours does."""
    headers = {"idempotency-key": task["id"].encode().hex().ljust(64, "0")[:64]}
    path = f"/v1/rooms/{task['channel_id']}/messages"
    answer = await relay.call("POST", path, {"body": "⏳ On it..."}, headers=headers)
    await finish(relay, task, answer.json()["event_id"], "I am on it: it will come by itself.")


def ask(page: Any, text: str, answers: int) -> None:
    """Ask in the open room; so many answers are there then."""
    page.fill("#text", text)
    page.press("#text", "Enter")
    expect(page.locator("article.msg").filter(has_text="I am on it")).to_have_count(answers)


async def test_what_arrived_later_is_marked(tmp_path: Path, chromium_path: str) -> None:
    """When, and after which request; an answer of a turn is not. Said once for all its parts."""

    def scenario(stage: Stage, windows: Windows) -> None:
        stage.script = works_keyed
        page = windows.new(WIDE, color_scheme="light").open(stage.link)
        ask(page, ASKED, 1)
        expect(page.locator(".late-line")).to_have_count(0)
        stage.call(post_file, stage.relay, 1, "report.md")
        stage.call(post, stage.relay, 2, "The docs are built: **no warnings**.")
        expect(page.locator("article.msg strong")).to_have_text("no warnings")
        line = page.locator(".late-line:visible")
        expect(line).to_have_count(1)
        expect(line).to_contain_text("Arrived later, at ")
        for number in (2, 3):
            label = page.locator("article.msg").nth(number).get_attribute("aria-label")
            assert label is not None
            assert label.endswith(", arrived later")
        page.get_by_role("button", name="Came after the answer to Olivia: Build the docs").click()
        expect(page.locator("article.msg").first).to_be_focused()
        page.reload()
        expect(page.locator(".late-line:visible")).to_have_count(1)
        expect(page.locator(".late-line .late-after")).to_have_text(f"after “{ASKED}”")
        small = windows.new(NARROW, color_scheme="dark").open(stage.link)
        expect(small.locator(".late-line:visible")).to_have_count(1)
        assert small.evaluate("document.documentElement.scrollWidth <= innerWidth")

    await play(tmp_path, chromium_path, scenario)


async def test_what_arrives_during_another_turn_is_marked_where_the_worker_tells(
    tmp_path: Path, chromium_path: str
) -> None:
    """The relay alone cannot know it; the worker beside it can. It belongs to the turn before."""
    go_on, begun = trio.Event(), trio.Event()

    async def script(relay: Relay, task: dict[str, Any]) -> None:
        if "second" not in task["task"]:
            return await works_keyed(relay, task)
        placed = await placeholder(relay)
        begun.set()
        await go_on.wait()
        return await finish(relay, task, placed, "I am on it as well.")

    def scenario(stage: Stage, windows: Windows) -> None:
        stage.script = script
        page = windows.new().open(stage.link)
        ask(page, ASKED, 1)
        page.fill("#text", "a second thing")
        page.press("#text", "Enter")
        trio.from_thread.run(begun.wait)
        stage.call(post, stage.relay, 7, "The docs are built.")
        stage.call(post, stage.relay, 8, "A word of the second turn.")
        expect(page.locator("article.msg").filter(has_text="A word of")).to_have_count(1)
        late = page.locator("article.msg").filter(has=page.locator(".late-line:visible"))
        expect(late).to_have_count(1)
        expect(late).to_contain_text("The docs are built.")
        expect(late.locator(".late-after")).to_have_text(f"after “{ASKED}”")
        trio.from_thread.run_sync(go_on.set)
        expect(page.locator("article.msg").filter(has_text="as well")).to_have_count(1)

    await play(tmp_path, chromium_path, scenario, is_late=lambda key: key == f"{7:064x}")
