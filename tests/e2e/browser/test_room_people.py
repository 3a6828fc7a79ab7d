"""The room page in a real browser: people, tiers, keyboard, narrow windows, accessibility."""

from pathlib import Path
from typing import Any

import pytest
import trio
from playwright.sync_api import Page, expect

from tests.e2e.browser.stage import NARROW, Stage, Windows, finish, placeholder, play, until
from tests.support.relay import Relay

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def add_person(page: Page, name: str, tier: str) -> str:
    """Add somebody through the panel; their link."""
    page.click(".members-button")
    page.click("#add-person")
    page.fill("dialog input[name=name]", name)
    page.check(f"dialog input[value={tier}]")
    page.click("dialog button[type=submit]")
    link = page.locator("dialog .once code").inner_text()
    page.click("dialog >> text=Done")
    return link


async def test_a_guests_link_shows_only_their_rooms(tmp_path: Path, chromium_path: str) -> None:
    """A guest comes in by a link shown once, sees the one room, and cannot change it."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        page.click("[aria-label='New room']")
        page.fill("dialog input[name=name]", "Secret plans")
        page.click("dialog button[type=submit]")
        expect(page.locator("#room-name")).to_have_text("Secret plans")
        page.click('.room-row:has-text("Helper\'s room")')
        link = add_person(page, "Ana", "guest")
        expect(page.locator(".member").filter(has_text="Ana").locator(".badge")).to_have_text(
            "guest"
        )
        ana = windows.new()
        hers = ana.open(link)
        expect(hers.locator("[data-room]")).to_have_count(1)
        expect(hers.locator("#sidebar")).not_to_contain_text("Secret plans")
        hers.click(".members-button")
        expect(hers.locator("#add-person")).to_have_count(0)
        expect(hers.locator("#filter")).to_be_disabled()
        hers.fill("#text", "hello from Ana")
        hers.press("#text", "Enter")
        expect(page.locator("article.msg .sender").first).to_have_text("Ana")

    await play(tmp_path, chromium_path, scenario)


async def test_an_agents_token_and_command_are_shown_once(
    tmp_path: Path, chromium_path: str
) -> None:
    """A new agent is a member with a badge; its token works until it is retired."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        page.click(".members-button")
        page.click("#add-agent")
        page.fill("dialog input[name=name]", "Scout")
        page.click("dialog button[type=submit]")
        expect(page.locator("dialog .once code")).to_have_count(2)
        command, token = page.locator("dialog .once code").all_inner_texts()
        assert token in command
        page.click("dialog >> text=Done")
        assert token not in page.content()
        secret = token.partition("|")[2]

        async def status() -> int:
            return (await stage.relay.call("GET", "/v1/tasks?wait=0", secret=secret)).status_code

        assert stage.call(status) == 200
        scout = page.locator(".member").filter(has_text="Scout")
        expect(scout.locator(".badge")).to_have_text("agent")
        scout.hover()
        scout.locator("[aria-label='Retire Scout']").click()
        page.click("dialog button[type=submit]")
        expect(scout).to_have_count(0)
        assert stage.call(status) == 401

    await play(tmp_path, chromium_path, scenario)


async def test_the_sensitive_data_flag_is_kept(tmp_path: Path, chromium_path: str) -> None:
    """A moderator turns the room's filter off, and it is off after a reload."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        page.click(".members-button")
        expect(page.locator("#filter")).to_be_checked()
        page.click("label[for=filter]")
        expect(page.locator("#filter")).to_be_enabled()
        expect(page.locator("#filter")).not_to_be_checked()
        page.reload()
        page.click(".members-button")
        expect(page.locator("#filter")).not_to_be_checked()

    await play(tmp_path, chromium_path, scenario)


async def test_the_concierge_answers_in_its_direct_message(
    tmp_path: Path, chromium_path: str
) -> None:
    """The owner trusts a guest there, and the panel shows the new tier at once."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        add_person(page, "Ana", "guest")
        badge = page.locator(".member").filter(has_text="Ana").locator(".badge")
        expect(badge).to_have_text("guest")
        address = page.locator(".member").filter(has_text="Ana").locator(".quiet").inner_text()
        page.click(".room-row:has-text('Concierge')")
        expect(page.locator("#room-name")).to_contain_text("oncierge")
        page.locator("#text").press_sequentially("trust @an")
        expect(page.get_by_role("option")).to_contain_text(address)
        page.press("#text", "Enter")
        expect(page.locator("#text")).to_have_value(f"trust {address} ")
        page.press("#text", "Enter")
        expect(page.locator("article.msg .badge.concierge")).to_have_count(1)
        page.click('.room-row:has-text("Helper\'s room")')
        expect(badge).to_have_text("owner")

    await play(tmp_path, chromium_path, scenario)


async def test_everything_goes_by_keyboard(tmp_path: Path, chromium_path: str) -> None:
    """Skip link, writing with a line break, completion, replying and rooms, without a mouse."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        expect(page.locator("#text")).to_be_focused()
        first = "document.querySelector('a[href], button, input, textarea, [tabindex]').className"
        assert page.evaluate(first) == "skip"
        page.locator(".skip").first.focus()
        expect(page.locator(".skip").first).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator("#text")).to_be_focused()
        page.keyboard.type("!hel")
        expect(page.get_by_role("option")).to_have_count(1)
        page.keyboard.press("Enter")
        page.keyboard.type("one")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("two")
        expect(page.locator("#text")).to_have_value("!helper one\ntwo")
        page.keyboard.press("Enter")
        expect(page.locator("article.msg strong")).to_have_count(1)
        expect(page.locator("#text")).to_have_value("")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowUp")
        expect(page.locator("article.own")).to_be_focused()
        page.keyboard.press("r")
        expect(page.locator(".replying")).to_contain_text("!helper one two")
        page.keyboard.type("and three")
        page.keyboard.press("Enter")
        expect(page.locator("article.own .quote")).to_contain_text("!helper one two")
        expect(page.locator("article.msg strong")).to_have_count(2)

    await play(tmp_path, chromium_path, scenario)


async def test_unread_marks_come_and_go(tmp_path: Path, chromium_path: str) -> None:
    """A message in another room marks it unread; opening it clears the mark, for a reload too."""

    def scenario(stage: Stage, windows: Windows) -> None:
        page = windows.new().open(stage.link)
        link = add_person(page, "Ana", "guest")
        page.click("[aria-label='New room']")
        page.fill("dialog input[name=name]", "Elsewhere")
        page.click("dialog button[type=submit]")
        expect(page.locator("#room-name")).to_have_text("Elsewhere")
        hers = windows.new().open(link)
        hers.fill("#text", "ping")
        hers.press("#text", "Enter")
        row = page.locator('.room-row:has-text("Helper\'s room")')
        expect(row.locator(".count")).to_be_visible()
        row.click()
        expect(page.locator("article.msg .msg-body").first).to_have_text("ping")
        expect(page.locator(".room-row .count")).to_have_count(0)
        until(
            page,
            "fetch('/page/state').then((r) => r.json())"
            ".then((state) => state.rooms.every((room) => room.unread === 0))",
        )
        page.reload()
        page.wait_for_selector("article.msg")
        expect(page.locator(".room-row .count")).to_have_count(0)

    await play(tmp_path, chromium_path, scenario)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_narrow_windows_show_one_column(
    tmp_path: Path, chromium_path: str, scheme: str
) -> None:
    """On a phone the room or the list is shown, nothing sticks out, and back leads back."""

    def scenario(stage: Stage, windows: Windows) -> None:
        stage.say("a " + "verylongword" * 30)
        stage.say("```\n" + "code " * 80 + "\n```")
        page = windows.new(NARROW, color_scheme=scheme, has_touch=True).open(stage.link)
        expect(page.locator("#room")).to_be_visible()
        expect(page.locator("#sidebar")).to_be_hidden()
        expect(page.locator("article.own")).to_have_count(2)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.evaluate("document.querySelector('#timeline').scrollWidth") == 390
        page.click(".back")
        expect(page.locator("#sidebar")).to_be_visible()
        expect(page.locator("#room")).to_be_hidden()
        page.click("[data-room]")
        expect(page.locator("#room")).to_be_visible()
        page.click(".members-button")
        expect(page.locator("#panel .member")).to_have_count(2)
        page.keyboard.press("Escape")
        expect(page.locator("#panel")).to_be_hidden()

    await play(tmp_path, chromium_path, scenario)


async def test_readers_are_told_once(tmp_path: Path, chromium_path: str) -> None:
    """A screen reader hears the start and the answer of a running message, not every step."""
    go_on = trio.Event()

    async def script(relay: Relay, task: dict[str, Any]) -> None:
        placed = await placeholder(relay)
        await relay.op("edit", event_id=placed, body="⏳ On it...\n\nRead the question")
        await go_on.wait()
        await finish(relay, task, placed, "You said: **count**")

    def scenario(stage: Stage, windows: Windows) -> None:
        stage.script = script
        page = windows.new().open(stage.link)
        page.evaluate(
            "window.said = []; new MutationObserver((all) => all.forEach((one) => "
            "one.addedNodes.forEach((node) => said.push(node.textContent))))"
            ".observe(document.getElementById('announcer'), {childList: true})"
        )
        page.fill("#text", "count")
        page.press("#text", "Enter")
        expect(page.locator("article.running .step.now")).to_have_text("Read the question")
        expect(page.locator("#announcer")).to_have_text("Helper is working on it.")
        trio.from_thread.run_sync(go_on.set)
        expect(page.locator("article.msg strong")).to_have_text("count")
        assert page.evaluate("window.said") == [
            "Helper is working on it.",
            "Helper: You said: **count**",
        ]
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, input, textarea, [role=listbox]')]"
            ".filter((el) => !(el.getAttribute('aria-label') || el.textContent.trim()"
            " || el.labels?.length || el.getAttribute('aria-hidden'))).map((el) => el.outerHTML)"
        )
        assert unnamed == []
        for landmark in ("navigation", "main"):
            expect(page.get_by_role(landmark)).to_have_count(1)

    await play(tmp_path, chromium_path, scenario)


async def test_a_reader_keeps_their_place(tmp_path: Path, chromium_path: str) -> None:
    """Who has scrolled up stays there while messages come; a button tells how many."""

    def scenario(stage: Stage, windows: Windows) -> None:
        async def fill() -> None:
            relay = stage.relay
            for number in range(70):
                await relay.relay.post(relay.room, relay.agent, f"Line {number}\n\nand more")

        stage.call(fill)
        page = windows.new().open(stage.link)
        expect(page.locator("article.msg")).to_have_count(50)
        end = "(() => { const t = document.querySelector('#timeline');"
        assert page.evaluate(end + "return t.scrollHeight - t.clientHeight - t.scrollTop})()") < 2
        page.hover("#timeline")
        page.mouse.wheel(0, -600)
        expect(page.locator(".jump")).to_have_text("To the newest")
        middle = "[...document.querySelectorAll('article.msg')].at(-12).getBoundingClientRect().top"
        before = page.evaluate(middle)
        stage.call(stage.relay.relay.post, stage.relay.room, stage.relay.agent, "a new one")
        expect(page.locator(".jump")).to_have_text("1 new message")
        assert page.evaluate(middle.replace("-12", "-13")) == before
        page.click(".jump")
        expect(page.locator(".jump")).to_be_hidden()
        page.mouse.move(700, 300)
        page.mouse.wheel(0, -20_000)
        expect(page.locator("article.msg")).to_have_count(71)
        expect(page.locator(".older")).to_be_hidden()

    await play(tmp_path, chromium_path, scenario)


async def test_a_wrong_link_is_refused_in_words(tmp_path: Path, chromium_path: str) -> None:
    """A link that is not valid leads to the door, which says so and takes another one."""

    def scenario(stage: Stage, windows: Windows) -> None:
        me = windows.new()
        page = me.page
        page.goto(stage.link.partition("#")[0] + "#k=wrong")
        expect(page.locator(".gate-card")).to_contain_text("not, or no longer, valid")
        expect(page).not_to_have_url("#k=")
        page.fill("input[name=link]", stage.link)
        page.keyboard.press("Enter")
        page.wait_for_selector("body[data-screen=rooms]")

    await play(tmp_path, chromium_path, scenario, may_fail=("401",))
