"""``agent-connect deliveries``: what the worker knows of what was delivered after its turn.

Reads the record beside a running worker and changes nothing; loads neither trio nor httpx.
"""

import os
import sys
import time

import msgspec

from agentconnect.cli.options import Options, printable
from agentconnect.config import envfile, settings
from agentconnect.core.delivery.answers import rfc3339
from agentconnect.core.delivery.founding import RecordFile
from agentconnect.core.delivery.ledger import DeliveryId, Entry, Notice, PartState
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.status_text import duration
from agentconnect.store.delivery_record import read_record
from agentconnect.store.layout import Layout
from agentconnect.store.lock import holder_of


def run_deliveries(options: Options) -> int:
    """Print the record, or one delivery of it; 1 where there is none of that id."""
    where = _layout(options)
    raw = read_record(where.deliveries, in_use=holder_of(where.lock).held)
    if options.json and not options.words:
        return _print(raw.decode())
    entries = _entries(raw)
    if not options.words:
        return _print(_listed(entries, time.time()))
    entry = next((entry for entry in entries if entry.id == options.words[0]), None)
    if entry is None:
        raise StoreUnreadableError(f'no delivery "{printable(options.words[0])}" is recorded here')
    if options.json:
        plain = msgspec.json.encode(entry, order="sorted")
        return _print(msgspec.json.format(plain, indent=2).decode() + "\n")
    return _print(_shown(entry, time.time()))


def _layout(options: Options) -> Layout:
    """The workspace of these settings. Raises: SettingsError."""
    path = envfile.locate(options.config, os.environ)
    values = envfile.read(path).parsed.values if path is not None else {}
    chosen = settings.load(os.environ, values, config_file=path).settings
    return Layout(state_dir=chosen.workspace)


def _entries(raw: bytes) -> list[Entry]:
    found = msgspec.json.decode(raw, type=RecordFile)
    return [
        msgspec.convert({**plain, "id": DeliveryId(name)}, Entry)
        for name, plain in found.deliveries.items()
    ]


def _listed(entries: list[Entry], now: float) -> str:
    if not entries:
        return "Nothing was delivered after its turn here.\n"
    return "".join(f"{_line(entry, now)}\n" for entry in entries)


def _line(entry: Entry, now: float) -> str:
    posted = sum(part.state is PartState.POSTED for part in entry.parts)
    age = duration(max(0.0, now - entry.first_seen))
    return (
        f"{_state(entry):<12} {posted}/{len(entry.parts)} {age:>8} ago"
        f"  {printable(entry.room)}  {printable(entry.id)}"
    )


def _state(entry: Entry) -> str:
    if entry.outcome is None:
        return "in progress"
    return (entry.reason or entry.outcome).value


def _shown(entry: Entry, now: float) -> str:
    rows = [
        ("id", entry.id),
        ("state", _state(entry)),
        ("why", entry.detail),
        ("room", entry.room),
        ("for", entry.sender or entry.tier),
        ("first seen", f"{duration(max(0.0, now - entry.first_seen))} ago"),
        ("tried until", rfc3339(entry.expires_at) or "" if entry.in_progress else ""),
        ("notice", "" if entry.notice is Notice.NONE else entry.notice.value),
    ]
    for index, part in enumerate(entry.parts):
        named = f"{part.kind.value} {part.name}".strip()
        rows.append((f"part {index}", f"{part.state.value}: {named} {part.event_id}".rstrip()))
    return "".join(f"{name:<12}{_plain(text)}\n" for name, text in rows if text)


def _plain(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _print(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
