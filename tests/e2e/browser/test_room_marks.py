"""The room page in a real browser: reactions, removing, new links, files by hand, small parts."""

from pathlib import Path
from typing import Any

import pytest
import trio
from playwright.sync_api import Page, expect

from tests.e2e.browser.stage import Stage, Windows, finish, placeholder, play, until
from tests.e2e.browser.test_room_page import picture
from tests.e2e.browser.test_room_people import add_person
from tests.support.relay import Relay

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

_FILES = """async ([kind, target, files]) => {
  const data = new DataTransfer();
  for (const [name, type, bytes] of files) {
    const content = typeof bytes === "number" ? new Uint8Array(bytes) : Uint8Array.from(bytes);
    data.items.add(new File([content], name, {type}));
  }
  const element = document.querySelector(target);
  const how = {bubbles: true, cancelable: true};
  if (kind === "paste") {
    element.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, ...how}));
    return;
  }
  for (const type of ["dragenter", "dragover", "drop"].slice(0, kind === "drag" ? 2 : 3)) {
    element.dispatchEvent(new DragEvent(type, {dataTransfer: data, ...how}));
  }
}"""


def hand_over(page: Page, kind: str, target: str, *files: tuple[str, str, Any]) -> None:
    """Paste, drag or drop files, as a hand would."""
    page.evaluate(_FILES, [kind, target, [list(file) for file in files]])


async def test_a_reaction_is_put_and_taken_back_live(tmp_path: Path, chromium_path: str) -> None:
    """By mouse and by keyboard; the others see it without a reload, with who it is from."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        link = add_person(page, "Ana", "guest")
        page.keyboard.press("Escape")
        hers = windows.new().open(link)
        page.fill("#text", "ping")
        page.press("#text", "Enter")
        expect(page.locator("article.msg strong")).to_have_count(1)
        own = page.locator("article.own")
        own.hover()
        own.locator("[aria-label=React]").click()
        page.get_by_role("menuitem", name="Party").click()
        expect(own).to_be_focused()
        chip = hers.locator("article.msg").first.locator(".reaction", has_text="🎉")
        expect(chip).to_have_attribute("aria-pressed", "false")
        expect(chip).to_have_attribute("title", "Olivia")
        chip.click()
        mine = page.locator(".reaction", has_text="🎉")
        expect(mine.locator(".count")).to_have_text("2")
        mine.click()
        expect(mine).to_have_attribute("aria-pressed", "false")
        expect(mine).to_have_attribute("title", "Ana")
        page.focus("#text")
        page.keyboard.press("ArrowUp")
        expect(page.locator("article.msg").last).to_be_focused()
        page.keyboard.press("e")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(hers.locator("article.msg").last.locator(".reaction")).to_have_text("👎👎 by Olivia")
        page.keyboard.press("e")
        expect(page.get_by_role("menu")).to_have_count(1)
        page.keyboard.press("Escape")
        expect(page.get_by_role("menu")).to_have_count(0)
        expect(page.locator("article.msg").last).to_be_focused()

    await play(tmp_path, chromium_path, scenario)


async def test_ones_own_message_can_be_removed(tmp_path: Path, chromium_path: str) -> None:
    """After a question it is gone for everybody, file and all; others' messages offer nothing."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        link = add_person(page, "Ana", "guest")
        page.keyboard.press("Escape")
        hers = windows.new().open(link)
        hand_over(page, "paste", "#text", ("shot.png", "image/png", list(picture())))
        page.fill("#text", "with my keys on it")
        page.press("#text", "Enter")
        expect(hers.locator(".image img")).to_have_js_property("naturalWidth", 60)
        url = hers.locator(".image img").get_attribute("src")
        theirs = hers.locator("article.msg").first
        theirs.hover()
        expect(theirs.locator("[aria-label='Reply to Olivia']")).to_be_visible()
        expect(theirs.locator("[aria-label='Remove this message']")).to_have_count(0)
        theirs.focus()
        hers.keyboard.press("Delete")
        expect(hers.locator("dialog")).to_have_count(0)
        page.locator("article.own").focus()
        page.keyboard.press("Delete")
        page.click("dialog >> text=Cancel")
        expect(hers.locator(".image img")).to_have_count(1)
        page.locator("article.own").focus()
        page.keyboard.press("Delete")
        page.click("dialog button[type=submit]")
        expect(theirs).to_contain_text("This message was removed.")
        expect(hers.locator(".image img")).to_have_count(0)
        expect(page.locator("article.own")).to_contain_text("This message was removed.")
        assert hers.request.get(f"{hers.url.partition('#')[0].rstrip('/')}{url}").status == 404

    await play(tmp_path, chromium_path, scenario)


async def test_the_owner_makes_a_new_link(tmp_path: Path, chromium_path: str) -> None:
    """Shown once; the old link and the browsers that came by it are out, the new one is in."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        old = add_person(page, "Ana", "guest")
        ana = windows.new()
        hers = ana.open(old)
        hers.click(".members-button")
        assert hers.locator("[aria-label^='Make a new link']").count() == 0
        row = page.locator(".member").filter(has_text="Ana")
        row.hover()
        row.locator("[aria-label='Make a new link for Ana']").click()
        page.click("dialog button[type=submit]")
        new = page.locator("dialog .once code").inner_text()
        page.click("dialog >> text=Done")
        assert new not in page.content()
        expect(hers.locator(".gate-card")).to_be_visible()
        hers.fill("input[name=link]", old)
        hers.keyboard.press("Enter")
        expect(hers.locator(".problem")).to_contain_text("not, or no longer, valid")
        hers.fill("input[name=link]", new)
        hers.keyboard.press("Enter")
        hers.wait_for_selector("body[data-screen=rooms]")

    await play(tmp_path, chromium_path, scenario, may_fail=("401",))


async def test_the_owners_earlier_link_opens_the_page_after_a_restart(
    tmp_path: Path, chromium_path: str
) -> None:
    """The link that was printed first, kept in a bookmark, still works after two more starts."""

    def scenario(stage: Stage, windows: Windows) -> None:
        first = stage.link
        for _ in range(2):
            stage.stop()
            stage.start()
        assert stage.link != first
        windows.new().open(first)

    await play(tmp_path, chromium_path, scenario)


async def test_files_are_dropped_and_pasted(tmp_path: Path, chromium_path: str) -> None:
    """A dragged file shows where it may go, a dropped and a pasted one are sent together."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        text = ("notes.txt", "text/plain", list(b"three words here"))
        hand_over(page, "drag", "#timeline", text)
        expect(page.locator(".drop-hint")).to_be_visible()
        hand_over(page, "drop", "#timeline", text)
        expect(page.locator(".drop-hint")).to_be_hidden()
        hand_over(page, "paste", "#text", ("shot.png", "image/png", list(picture())))
        expect(page.locator(".preview")).to_have_count(2)
        page.click("[aria-label='Leave out notes.txt']")
        expect(page.locator(".preview")).to_have_count(1)
        hand_over(page, "drop", "#room", text)
        page.press("#text", "Enter")
        expect(page.locator("article.own .image img")).to_have_js_property("naturalWidth", 60)
        page.click("[aria-label='Open notes.txt']")
        expect(page.locator(".viewer-text")).to_have_text("three words here")

    await play(tmp_path, chromium_path, scenario)


async def test_nothing_moves_under_a_pressed_pointer(tmp_path: Path, chromium_path: str) -> None:
    """A message that comes between pressing and letting go neither takes the click nor is lost."""

    def scenario(stage: Stage, windows: Windows) -> None:
        relay = stage.relay
        other = stage.call(relay.relay.create_room, "Other", relay.owner, (relay.agent,))
        page = windows.new({"width": 900, "height": 420}).open(stage.link)
        page.click('.room-row:has-text("Helper\'s room")')
        hand_over(page, "drop", "#room", ("notes.txt", "text/plain", list(b"three words here")))
        page.press("#text", "Enter")
        card = page.locator("[aria-label='Open notes.txt']")
        expect(page.locator("article.msg strong")).to_contain_text("notes.txt")
        card.hover()
        page.mouse.down()
        stage.call(relay.relay.post, relay.room, relay.agent, "long\n\n" * 40 + "**end**")
        stage.call(relay.relay.post, other, relay.agent, "a sign that the stream is read")
        expect(page.locator(".room-row .count")).to_be_visible()
        expect(page.locator("article.msg strong")).to_have_count(1)
        page.mouse.up()
        expect(page.locator(".viewer-text")).to_have_text("three words here")
        expect(page.locator("article.msg strong").last).to_have_text("end")

    await play(tmp_path, chromium_path, scenario)


async def test_a_file_too_big_is_refused_in_words(tmp_path: Path, chromium_path: str) -> None:
    """Over 25 MiB and empty ones are not even begun; what fits beside them is kept."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        big = ("film.mov", "video/quicktime", 25 * 1024 * 1024 + 1)
        hand_over(page, "drop", "#room", big, ("empty.txt", "", 0), ("fits.txt", "", [97]))
        expect(page.locator(".toast").first).to_contain_text("film.mov has 26.2 MB")
        expect(page.locator(".toast").last).to_contain_text("empty.txt is empty")
        expect(page.locator(".preview")).to_have_count(1)
        page.press("#text", "Enter")
        expect(page.locator("article.own .file-card")).to_contain_text("fits.txt")

    await play(tmp_path, chromium_path, scenario)


async def test_colours_follow_the_wish(tmp_path: Path, chromium_path: str) -> None:
    """System, light, dark and back by one button; the wish outlives a reload, without a flash."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new(color_scheme="light").open(stage.link)
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        toggle = page.locator("#theme-toggle")
        expect(toggle).to_have_attribute("aria-label", "Colours: as the system")
        toggle.click()
        expect(toggle).to_have_attribute("aria-label", "Colours: light")
        assert page.evaluate(ground) == light
        page.keyboard.press("Enter")
        expect(toggle).to_have_attribute("aria-label", "Colours: dark")
        dark = page.evaluate(ground)
        assert dark != light
        page.reload()
        page.wait_for_selector("body[data-screen=rooms]")
        assert page.evaluate(ground) == dark
        toggle.click()
        expect(toggle).to_have_attribute("aria-label", "Colours: as the system")
        assert page.evaluate(ground) == light
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(ground) == dark

    await play(tmp_path, chromium_path, scenario)


async def test_an_agent_answers_in_a_direct_message(tmp_path: Path, chromium_path: str) -> None:
    """From the list of who can be written to: a room of two, where every word is for the agent."""

    async def script(relay: Relay, task: dict[str, Any]) -> None:
        await relay.call(
            "POST", "/v1/results", {"id": task["id"], "body": f"In private: {task['task']}"}
        )

    def scenario(stage: Stage, windows: Windows) -> None:
        stage.script = script
        page = windows.new().open(stage.link)
        page.click("[aria-label='New direct message']")
        page.click("dialog .room-row:has-text('Helper')")
        expect(page.locator("#room-name")).to_have_text("Helper")
        page.fill("#text", "psst")
        page.press("#text", "Enter")
        expect(page.locator("article.msg .msg-body").last).to_have_text("In private: psst")
        page.click('.room-row:has-text("Helper\'s room")')
        expect(page.locator("article.msg")).to_have_count(0)

    await play(tmp_path, chromium_path, scenario)


async def test_a_person_is_taken_out_of_a_room(tmp_path: Path, chromium_path: str) -> None:
    """Their page loses the room at once, what they wrote stays, and they may come back."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        link = add_person(page, "Ana", "collaborator")
        hers = windows.new().open(link)
        hers.fill("#text", "I was here")
        hers.press("#text", "Enter")
        expect(page.locator("article.msg .sender").first).to_have_text("Ana")
        row = page.locator(".member").filter(has_text="Ana")
        row.hover()
        row.locator("[aria-label='Take Ana out of this room']").click()
        page.click("dialog button[type=submit]")
        expect(row).to_have_count(0)
        expect(hers.locator("[data-room]")).to_have_count(0)
        expect(hers.locator("#room")).not_to_contain_text("I was here")
        expect(page.locator("article.msg .msg-body").first).to_have_text("I was here")
        page.click("#add-person")
        page.select_option("dialog select[name=who]", index=1)
        page.click("dialog button[type=submit]")
        expect(hers.locator("[data-room]")).to_have_count(1)

    await play(tmp_path, chromium_path, scenario)


async def test_what_the_worker_adds_is_shown(tmp_path: Path, chromium_path: str) -> None:
    """Scheduled tasks and the like stand beside the rooms, as text; without any, nothing does."""
    told: dict[str, Any] = {}

    async def telling() -> object:
        return told

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        expect(page.locator("#extras")).to_be_hidden()
        told["scheduled_tasks"] = [{"title": "<b>Report</b>", "next": "09:00", "room": ""}]
        page.reload()
        extras = page.locator("#extras")
        expect(extras.locator("summary")).to_have_text("Scheduled tasks")
        expect(extras.locator("li")).to_have_text("<b>Report</b>Next: 09:00")

    await play(tmp_path, chromium_path, scenario, extras=telling)


async def test_running_steps_outlive_a_reload(tmp_path: Path, chromium_path: str) -> None:
    """Who comes in the middle of a turn sees the steps so far, and the answer in their place."""
    go_on, stepped = trio.Event(), trio.Event()

    async def script(relay: Relay, task: dict[str, Any]) -> None:
        placed = await placeholder(relay)
        for step in ("Read README.md", "Count the words"):
            await relay.op("edit", event_id=placed, body=f"⏳ On it...\n\n{step}")
        stepped.set()
        await go_on.wait()
        await finish(relay, task, placed, "There are **42** words.")

    def scenario(stage: Stage, windows: Windows) -> None:
        stage.script = script
        page = windows.new().open(stage.link)
        page.fill("#text", "How many?")
        page.press("#text", "Enter")
        trio.from_thread.run(stepped.wait)
        page.reload()
        expect(page.locator(".step.done")).to_have_text("Read README.md")
        expect(page.locator(".step.now")).to_have_text("Count the words")
        trio.from_thread.run_sync(go_on.set)
        expect(page.locator("article.msg strong")).to_have_text("42")
        expect(page.locator(".step")).to_have_count(0)
        until(page, "document.querySelectorAll('article.msg').length === 2")

    await play(tmp_path, chromium_path, scenario)
