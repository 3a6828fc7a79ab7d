"""Arguments to options (worker.md §1). There is no flag per setting, deliberately."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from agentconnect.core.errors import AgentConnectError

USAGE = """\
usage: agent-connect [--config PATH] [COMMAND]

Joins the coding agent on this machine to the rooms where people ask for things.

  (no command)       run the worker
  local              relay, room page, worker and agent on this machine; prints one URL
      --say TEXT         without a browser: post TEXT, print the answer, end
      --listen HOST:PORT where the relay listens (default: 127.0.0.1 and a free port)
      --dir PATH         where rooms are kept (default: ~/.agent-connect/local)
  relay              the relay and its room page alone, for workers elsewhere
      --listen HOST:PORT where it listens (default: 127.0.0.1:8460)
      --public-url URL   how workers and browsers reach it, if not by that address
      --dir PATH         where rooms are kept (default: ~/.agent-connect/relay)
      --add-agent NAME   make an agent identity, print its token and command once

  --config PATH      the config file (else AGENT_CONNECT_CONFIG, else
                     ~/.agent-connect/config.env if it exists)
  --export-config    print the config file as shell export lines
  --version          print the version
  -h, --help         print this text

Settings are environment variables; the config file holds the same names, and the
environment wins. All of them: docs/settings.md
"""

_FLAGS: Mapping[str, Mapping[str, str]] = {
    "": {},
    "local": {"--say": "say", "--listen": "listen", "--dir": "directory"},
    "relay": {
        "--listen": "listen",
        "--dir": "directory",
        "--add-agent": "add_agent",
        "--public-url": "public_url",
    },
}


_KNOWN = {"--config", "--export-config"}.union(*_FLAGS.values())
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[\x21-\x7e]*)?")


class UsageError(AgentConnectError):
    """The arguments are off; exit 2 with the usage."""

    exit_code = 2


class Options(msgspec.Struct, kw_only=True):
    """The arguments, parsed."""

    command: str = ""
    config: str | None = None
    export: bool = False
    say: str | None = None
    listen: str | None = None
    directory: str | None = None
    add_agent: str | None = None
    public_url: str | None = None
    umask: int = -1


def parse(argv: Sequence[str]) -> Options:
    """Arguments to options. Raises: UsageError naming the argument."""
    options = Options()
    words = list(argv)
    while words:
        word = words.pop(0)
        flag, equals, value = word.partition("=")
        if flag == "--config" or flag in _FLAGS[options.command]:
            if not equals and not words:
                what = "a path" if flag in {"--config", "--dir"} else "a value"
                raise UsageError(f"{flag} needs {what}")
            field = "config" if flag == "--config" else _FLAGS[options.command][flag]
            given = value if equals else words.pop(0)
            if not equals and given in _KNOWN:
                raise UsageError(f"{flag} needs a value, and {given} is an argument of its own")
            if field == "add_agent" and not given.strip():
                raise UsageError("--add-agent needs a name")
            if field == "public_url" and not _ADDRESS.fullmatch(given):
                raise UsageError("--public-url needs an address like https://rooms.example.org")
            setattr(options, field, given)
        elif word == "--export-config":
            options.export = True
        elif word in {"local", "relay"} and not options.command:
            options.command = word
        else:
            raise UsageError(f'unknown argument "{printable(word)}"')
    return options


def printable(text: str) -> str:
    """A person's text without what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text[:80])
