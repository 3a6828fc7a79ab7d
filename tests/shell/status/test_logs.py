"""The log: text or JSON, ids and reasons, and no secret in either."""

import json
import logging
from collections.abc import Iterator

import pytest

from agentconnect.status import logs

SECRET = "s3cret-of-this-test"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """The root logger as it was."""
    root = logging.getLogger()
    ours = logging.getLogger("agentconnect")
    before = (root.handlers[:], root.level, ours.level)
    yield
    root.handlers[:], root.level, ours.level = before


def test_a_text_line_has_time_level_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    """One line a fact, with a time stamp that holds its zone."""
    logs.configure("text", lambda: (SECRET,))
    logging.getLogger("agentconnect.turns").info("task=%s reason=%s", "t-1", "completed")
    stamp, level, place, rest = capsys.readouterr().err.rstrip("\n").split(" ", 3)
    assert stamp.count(":") == 2
    assert (level, place, rest) == ("info", "turns:", "task=t-1 reason=completed")


def test_json_lines_carry_the_facts_as_members(capsys: pytest.CaptureFixture[str]) -> None:
    """What a machine reads: numbers stay numbers."""
    logs.configure("json", lambda: (SECRET,))
    facts = {"task": "t-1", "seconds": 1.5, "note": f"x{SECRET}"}
    logging.getLogger("agentconnect.turns").info("done", extra={"facts": facts})
    line = json.loads(capsys.readouterr().err)
    assert (line["task"], line["seconds"], line["level"]) == ("t-1", 1.5, "info")
    assert SECRET not in line["note"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_secret_is_cut_out_of_messages_and_tracebacks(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bearer verbatim, and the shapes of well-known tokens."""
    logs.configure(form, lambda: (SECRET,))
    log = logging.getLogger("agentconnect.relay")
    token = "ghp_" + "a1B2" * 9
    log.warning("a header said Bearer %s and %s", SECRET, token)
    try:
        int(SECRET)
    except ValueError:
        log.exception("broke")
    err = capsys.readouterr().err
    assert SECRET not in err
    assert token not in err
    assert "broke" in err


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_others_chose_stays_on_its_line(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An id with a line end forges no second line, and an escape reaches no terminal."""
    logs.configure(form)
    logging.getLogger("agentconnect.turns").info("room=%s", "!r:x\n2026 info: forged \x1b[2J\u2028")
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert "\u2028" not in err or form == "json"


def test_a_line_that_cannot_be_made_shows_nothing_of_its_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The library would print a traceback with them."""
    logs.configure("text")
    logging.getLogger("agentconnect.turns").info("%d", SECRET)
    assert capsys.readouterr().err == ""


def test_a_sentence_is_cleaned_as_a_line_of_the_log_is() -> None:
    """Before the log is set up the table of shapes still counts."""
    told = f"{SECRET} https://u:hunter22@h"
    assert "hunter22" not in logs.clean(told)
    logs.configure("text", lambda: (SECRET,))
    assert SECRET not in logs.clean(told)
