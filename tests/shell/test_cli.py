"""The command line: arguments, exit codes, and what it must not import."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentconnect.cli.console import say, speak_safely
from agentconnect.cli.main import main
from agentconnect.cli.options import COMMANDS, parse
from agentconnect.cli.places import made_folder


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it."""
    return subprocess.run(
        [sys.executable, "-m", "agentconnect", *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["local", "-h"], ["nonsense", "--help"]])
def test_help_is_on_stdout_also_after_other_arguments(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Help always wins, with exit 0."""
    assert main(arguments) == 0
    out = capsys.readouterr().out
    for word in ("--config", "--export-config", "AGENT_CONNECT_CONFIG", "environment wins"):
        assert word in out.replace("\n", " ").replace("  ", " ")
    assert "~/.agent-connect/config.env" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bogus"], '"--bogus"'),
        (["local", "extra"], '"extra"'),
        (["--say", "x"], '"--say"'),
        (["--config"], "--config needs a path"),
        (["local", "--say"], "--say needs a value"),
        (["local", "--listen", "nonsense"], "not HOST:PORT"),
        (["local", "--say", " "], "--say needs a message"),
        (["relay", "--add-agent", " "], "--add-agent needs a name"),
        (["relay", "--add-agent", "--dir"], "--add-agent needs a value"),
        (["relay", "--public-url", "javascript:alert(1)"], "--public-url needs an address"),
        (["\x1b[31mred"], '"?[31mred"'),
        ([""], '""'),
        (["status", "--watsch"], '"--watsch"'),
        (["doctor", "extra"], '"extra"'),
        (["doctor", "--json=1"], '"--json=1"'),
        (["--json", "doctor"], '"--json"'),
        (["service"], "service needs one of install, uninstall, print, logs"),
        (["service", "instal"], "service needs one of install"),
        (["service", "install", "extra"], '"extra"'),
    ],
)
def test_wrong_arguments_are_named_with_exit_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The argument is quoted, control characters are not passed on, nothing goes to stdout."""
    assert main(arguments) == 2
    found = capsys.readouterr()
    assert words in found.err
    assert found.err.startswith("agent-connect: ")
    assert found.out == ""


@pytest.mark.parametrize("command", sorted(COMMANDS))
@pytest.mark.parametrize("more", [("--bogus",), ("a", "b", "c")])
def test_one_sentence_and_where_all_arguments_stand(
    command: str, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence is the last thing on the screen but for one line, whatever the command."""
    arguments = [*([command] if command else []), *more]
    if command == "status":
        arguments.append("--bogus")  # it takes any number of words
    assert main(arguments) == 2
    sentence, hint, *rest = capsys.readouterr().err.splitlines()
    assert sentence.startswith("agent-connect: ")
    assert "agent-connect --help" in hint
    assert rest == []


@pytest.mark.parametrize(
    ("arguments", "mended"),
    [
        (["staus"], "the commands are local, relay, status, "),
        (["--json", "doctor"], "it stands behind its command (status, deliveries, schedule, "),
        (["--model", "x"], "a setting is an environment variable"),
        (["local", "--sai", "x"], "those of local are --say, --listen, --dir"),
        (["service", "print", "x"], "--no-start, behind one of install, uninstall, print, logs"),
        (["relay", "--say", "x"], "those of relay are --listen, "),
        (["schedule", "rm"], "schedule rm needs the id of a task"),
        (["schedule", "add", "x"], "schedule add needs --cron EXPRESSION and a prompt"),
        (["schedule", "list", "x"], "schedule list takes nothing more"),
        (["notify", "x"], "notify needs --channel NAME and --to user:ID or --to chat:ID"),
    ],
)
def test_the_sentence_says_what_would_be_taken(
    arguments: list[str], mended: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads it need not read the whole usage to mend it."""
    assert main(arguments) == 2
    assert mended in capsys.readouterr().err.splitlines()[0]


def test_config_may_stand_before_or_after_the_command() -> None:
    """Both orders and both spellings; an empty ``--config=`` behaves as if absent."""
    assert parse(["--config", "a", "local"]).config == "a"
    assert parse(["local", "--config=a"]).config == "a"
    assert parse(["--config="]).config == ""
    assert parse(["--export-config", "--config", "a"]).export
    assert parse(["service", "--config", "a", "print"]).config == "a"


def test_a_command_has_flags_without_value_and_words() -> None:
    """``status`` takes any number of files, before and after its flags; a command may be a word."""
    options = parse(["status", "one", "--json", "status", "--config=c", "--watch"])
    assert ("status", "c") == (options.command, options.config)
    assert (True, True) == (options.json, options.watch)
    assert ("one", "status") == options.words
    assert ("logs",) == parse(["service", "logs"]).words
    assert not parse(["doctor"]).json


def test_a_named_config_file_that_is_missing_stops_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No fallback to another file, and the path is in the sentence."""
    missing = tmp_path / "none.env"
    assert main(["--config", str(missing)]) == 2
    assert str(missing) in capsys.readouterr().err


def test_export_config_prints_only_the_exports(home: Path) -> None:
    """stdout is for ``eval``; what is to be said about the file goes to stderr."""
    folder = home / ".agent-connect"
    folder.mkdir()
    (folder / "config.env").write_text("AGENT_CONNECT_TOKEN=a|b\nPATH=/x\n")
    (folder / "config.env").chmod(0o600)
    done = run("--export-config")
    assert done.returncode == 0
    assert done.stdout == "export AGENT_CONNECT_TOKEN='a|b'\n"
    assert "PATH" in done.stderr


def test_export_config_is_utf8_whatever_the_terminal_speaks(home: Path) -> None:
    """A launcher's ``eval`` must give the value of the file, byte for byte."""
    folder = home / ".agent-connect"
    folder.mkdir()
    (folder / "config.env").write_text("AGENT_CONNECT_REPO=/näme→\n", encoding="utf-8")
    (folder / "config.env").chmod(0o600)
    done = subprocess.run(
        [sys.executable, "-m", "agentconnect", "--export-config"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.decode() == "export AGENT_CONNECT_REPO='/näme→'\n"


def test_a_terminal_that_lacks_a_character_ends_nothing(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said is said escaped."""
    with open(1, "w", encoding="ascii", closefd=False) as narrow:
        monkeypatch.setattr(sys, "stdout", narrow)
        speak_safely()
        say("/näme")
        monkeypatch.undo()
    assert capfd.readouterr().out == "/n\\xe4me\n"


def test_a_stdout_that_is_full_changes_no_ending(tmp_path: Path) -> None:
    """A service whose log file is on a full disk serves, and ends with the code it would have."""
    code = "from agentconnect.cli.console import say\nsay('one')\nsay('two')\nraise SystemExit(4)"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, check=False, timeout=60)
    assert done.returncode == 4


@pytest.mark.parametrize("argument", ["--help", "--version", "--export-config"])
def test_an_answer_that_cannot_be_written_is_a_sentence(argument: str, home: Path) -> None:
    """A full disk behind ``>``: exit 1 and why, no traceback; the caller must not believe it."""
    folder = home / ".agent-connect"
    folder.mkdir()
    (folder / "config.env").write_text("AGENT_CONNECT_TOKEN=a|b\n")
    (folder / "config.env").chmod(0o600)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "agentconnect", argument],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (1, "agent-connect: No space left on device\n") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 1),
        (["--version"], 1),
        (["doctor", "--json"], 1),
        (["status"], 3),
        (["status", "--json"], 3),
    ],
)
def test_a_reader_that_has_seen_enough_is_told_nothing(
    arguments: list[str], code: int, home: Path
) -> None:
    """``| head`` is no error; a verdict that is known stays the exit code."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "agentconnect", *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert (code, "") == (done.returncode, done.stderr)


def signalled(number: int, module: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A start that gets this signal while it loads that module."""
    code = f"""
import builtins, os
load = builtins.__import__
def interrupted(name, *rest, **more):
    if name == {module!r}:
        os.kill(os.getpid(), {number})
    return load(name, *rest, **more)
builtins.__import__ = interrupted
import sys
sys.argv = ["agent-connect", "local", "--dir", {str(folder)!r}]
from agentconnect.__main__ import main
main()
"""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("module", ["agentconnect.cli.main", "msgspec", "trio"])
def test_ctrl_c_while_modules_are_loaded_shows_no_traceback(module: str, tmp_path: Path) -> None:
    """The first half second of a start is loading; exit 130, nothing on the terminal."""
    done = signalled(signal.SIGINT, module, tmp_path)
    assert (130, "", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_a_start_is_loaded_is_the_code_that_the_readme_gives(
    number: int, repo_root: Path, tmp_path: Path
) -> None:
    """Nothing is there yet to be stopped in order: 128 + n, as a shell tells it."""
    done = signalled(number, "trio", tmp_path)
    told = done.returncode if done.returncode >= 0 else 128 - done.returncode
    assert (128 + number, "") == (told, done.stderr)
    rows = re.findall(r"^\| ([^|]+?) \| (.+) \|$", (repo_root / "README.md").read_text(), re.M)
    assert "the first while a start is still being loaded" in dict(rows)["128 + n"]


def test_version_is_the_package_s() -> None:
    """One source of truth for the version."""
    from importlib.metadata import version

    done = run("--version")
    assert done.stdout == f"agent-connect {version('agentconnect')}\n"
    assert done.returncode == 0


def test_a_relay_address_in_use_is_a_sentence(tmp_path: Path) -> None:
    """The port is taken: one line on stderr, exit 1, no traceback."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("relay", "--dir", str(tmp_path), "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert done.stderr == (
        f"agent-connect: nothing can listen at 127.0.0.1:{port}: Address already in use. "
        "Name another address with --listen\n"
    )


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b"])
def test_a_relay_address_that_is_none_is_a_sentence(host: str, tmp_path: Path) -> None:
    """A host that nobody knows, and what is no host's name at all."""
    done = run("relay", "--dir", str(tmp_path), "--listen", f"{host}:0")
    assert done.returncode == 1
    assert done.stderr.startswith(f"agent-connect: nothing can listen at {host}:0: ")
    assert 1 == done.stderr.count("\n")


@pytest.mark.parametrize("command", ["local", "relay"])
def test_a_folder_that_cannot_be_is_named_with_the_flag(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with the folder's name, or in the way to it."""
    taken = tmp_path / "taken"
    taken.touch()
    assert main([command, "--dir", str(taken)]) == 1
    assert main([command, "--dir", str(taken / "below")]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"agent-connect: the folder {taken} exists and is no folder. Name another with --dir",
        f"agent-connect: the folder {taken}/below cannot be made: Not a directory. "
        "Name another with --dir",
    ]


def test_a_folder_of_a_user_who_is_not_known_is_taken_literally(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a shell does, and never as an unexpected error."""
    monkeypatch.chdir(tmp_path)
    assert tmp_path / "~nobody-of-that-name" == made_folder("~nobody-of-that-name", "relay")
