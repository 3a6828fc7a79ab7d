"""The texts of the one-shot agents, read without any of them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.errors import SettingsError
from agentconnect.core.task import Tier
from agentconnect.core.turns import cli_text, oneshot
from agentconnect.core.turns.oneshot import Kept, Sandbox


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("[claude] hi", ("claude", "hi")),
        ("  [ Claude ]\n hi\nthere", ("claude", "hi\nthere")),
        ("[harness:own-1] hi", ("own-1", "hi")),
        ("[HARNESS : own_2 ] hi", ("own_2", "hi")),
        ("[harness: codex] hi", ("codex", "hi")),
        ("[todo] hi", None),
        ("[ ] hi", None),
        ("[] hi", None),
        ("[codex now] hi", None),
        ("[harness:] hi", None),
        ("[harness: -x] hi", None),
        ("say [codex] hi", None),
        ("[codex]", None),
        ("", None),
    ],
)
def test_the_harness_in_front_of_a_message(message: str, expected: tuple[str, str] | None) -> None:
    """A known name alone, any name behind ``harness:``; everything else is the message."""
    assert (expected or ("", message)) == cli_text.harness_of(message)


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        ('{"type":"run_result","text":"a"}\n{"type":"run_result","text":"b"}\n', "b"),
        ('{"type":"run_result","text":"a"}\n{"type":"run_result","text":"  "}\n', "a"),
        ('{"type":"run_result","text":" Submission recorded (verified): ok "}', "ok"),
        ('{"type":"run_result","text":5}\nplain', '{"type":"run_result","text":5}\nplain'),
        ('[1]\n"x"\n5\nnull\n{"type":"run_result","text":"a"}', "a"),
        ('{"type":"run_result","text":"a"}\r\n{broken', "a"),
        ("\x1b[31mred\x1b[0m text\n", "red text"),
        ("[" * 5000, "[" * 5000),
        ('{"a":' * 5000, '{"a":' * 5000),
        ("", ""),
    ],
)
def test_cline_answers(out: str, expected: str) -> None:
    """The last result with words in it; a line that is no object is nothing to stumble over."""
    assert (expected, False) == cli_text.cline_answer(out)


@given(
    st.lists(
        st.one_of(
            st.text(max_size=40),
            st.builds(
                json.dumps,
                st.dictionaries(
                    st.sampled_from(["type", "text", "part", "role"]),
                    st.sampled_from(
                        ["run_result", "text", "assistant", {}, {"text": "x"}, None, 1]
                    ),
                ),
            ),
        )
    )
)
def test_no_output_breaks_the_reading(lines: list[str]) -> None:
    """Whatever a program prints is read without an exception."""
    out = "\n".join(lines)
    cli_text.cline_answer(out)
    cli_text.kilo_answer(out)


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("http://localhost:11434", "http://localhost:11434"),
        ("http://localhost:11434//", "http://localhost:11434"),
        ("https://gpu.example/ollama/", "https://gpu.example/ollama"),
        ("http://gpu.example", "http://gpu.example"),
        ("gpu.example", "http://gpu.example:11434"),
        ("10.0.0.5:1234", "http://10.0.0.5:1234"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000"),
        ("http://0.0.0.0:8000/", "http://127.0.0.1:8000"),
        (":8000", "http://127.0.0.1:8000"),
        ("[::]:8000", "http://[::1]:8000"),
        ("::1", "http://[::1]:11434"),
        ('"localhost"', "http://localhost:11434"),
        ("HTTP://u:p@h:1", "http://u:p@h:1"),
    ],
)
def test_the_address_as_ollama_reads_it(text: str, base: str) -> None:
    """With and without scheme and port; every address is one that can be called."""
    assert base == cli_text.ollama_base(text)


@pytest.mark.parametrize(
    "text", ["ftp://h", "http://h:x", "h:99999", "http://a b", "http://h?x=1", "unix:///x"]
)
def test_no_address(text: str) -> None:
    """What cannot be called is refused with the setting's name."""
    with pytest.raises(SettingsError, match="OLLAMA_HOST"):
        cli_text.ollama_base(text)


@pytest.mark.parametrize(
    ("wanted", "known", "there"),
    [
        ("m", ("m:latest",), True),
        ("m:3b", ("m:3b",), True),
        ("m", ("m:3b",), False),
        ("host:5000/lib/m", ("host:5000/lib/m:latest",), True),
        ("m", (), False),
    ],
)
def test_a_model_without_a_tag_is_the_latest(
    wanted: str, known: tuple[str, ...], there: bool
) -> None:
    """As ollama itself resolves names."""
    assert there == cli_text.model_present(wanted, known)


def test_codex_speaks_from_its_first_error_on() -> None:
    """The banner and the prompt that it repeats are not what went wrong."""
    err = "banner\nuser\n[pre]\n\nERROR: mine\nwarning: x\nERROR: theirs\nmore\n"
    assert "ERROR: theirs\nmore\n" == cli_text.codex_errors(err, "[pre]\n\nERROR: mine")
    assert "plain" == cli_text.codex_errors("plain", "[pre]")


@pytest.mark.parametrize("tier", list(Tier))
def test_only_the_owner_writes(tier: Tier) -> None:
    """Every other tier reads."""
    assert (tier is Tier.OWNER) == (oneshot.sandbox_of(tier) is Sandbox.WORKSPACE_WRITE)


@given(st.lists(st.binary(max_size=30)), st.integers(0, 20), st.integers(0, 20))
def test_what_is_kept_is_the_beginning_and_the_end(
    blocks: list[bytes], head: int, tail: int
) -> None:
    """In bounds whatever comes, whole where it fits."""
    kept = Kept(head, tail)
    whole = b"".join(blocks)
    for block in blocks:
        kept.add(block)
    if len(whole) <= head + tail:
        assert whole.decode("utf-8", "replace") == kept.text
    else:
        assert f"{len(whole) - head - tail} bytes left out" in kept.text


def test_a_word_of_a_command_line() -> None:
    """Counted in bytes; a NUL is replaced, everything else stays."""
    assert "a\ufffdb" == oneshot.word("a\0b")
    assert oneshot.word("x" * oneshot.WORD_MAX_BYTES) is not None
    assert oneshot.word("ü" * (oneshot.WORD_MAX_BYTES // 2 + 1)) is None
