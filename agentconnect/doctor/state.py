"""The workspace: its folder, who holds it, whether its files can be read, room on the disk.

Everything is opened for reading only; nothing is made, locked for long, or put right. Blocking.
"""

import os
import shlex
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from agentconnect.config.envfile import expand_home
from agentconnect.config.settings import LoadedSettings
from agentconnect.core.delivery.capability import NO_FAULT
from agentconnect.core.doctor import Finding, failure, ok, warning
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.core.relay.credential import Credential
from agentconnect.core.relay.guard import claim_name
from agentconnect.core.status import Judgement, Verdict, judge
from agentconnect.core.status_text import duration
from agentconnect.core.turns import access
from agentconnect.store import children, sessions
from agentconnect.store.delivery_rows import SCHEMA as DELIVERIES
from agentconnect.store.inspect import inspect
from agentconnect.store.layout import CLAIMS, Layout
from agentconnect.store.lock import Holder, holder_of
from agentconnect.store.peek import peek
from agentconnect.store.rows import SCHEMA

LOW_BYTES = 200 * 1024 * 1024
FULL_BYTES = 10 * 1024 * 1024
CLOCK_S = 5.0


def look(
    loaded: LoadedSettings, where: Layout, credential: Credential | None = None
) -> list[Finding]:
    """All lines about the workspace, and who else on this machine uses the token."""
    folder = where.state_dir
    findings = _folder(folder)
    holder = holder_of(where.lock)
    if folder.is_dir():
        findings += _lock(holder, folder)
        findings += _stores(loaded, where, holder)
        findings += _status(loaded.settings.status_file or where.status, holder)
    if credential is not None and not holder.held:
        findings += _token_in_use(credential, Path(expand_home(CLAIMS, loaded.environment)))
    return [*findings, *_disk(folder)]


# --- the folder


def _folder(folder: Path) -> list[Finding]:
    mend = "name a folder of your own with AGENT_CONNECT_WORKSPACE, or change its owner"
    try:
        found = folder.stat()
    except FileNotFoundError:
        parent = _nearest(folder)
        if os.access(parent, os.W_OK | os.X_OK) and parent.is_dir():
            return [ok("workspace", f"{folder} will be made at the first start")]
        text = f"{folder} cannot be made: {parent} may not be written to"
        return [failure("workspace", text, mend)]
    except OSError as error:
        return [failure("workspace", f"{folder} cannot be used: {error.strerror}", mend)]
    if not stat.S_ISDIR(found.st_mode):
        return [failure("workspace", f"{folder} is not a folder", mend)]
    if found.st_uid != os.geteuid() and os.geteuid() != 0:
        return [failure("workspace", f"{folder} belongs to user {found.st_uid}", mend)]
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return [failure("workspace", f"{folder} may not be written to", mend)]
    if found.st_mode & 0o077:
        text = f"{folder} can be entered by other users of this machine"
        mend = f"chmod 700 {shlex.quote(str(folder))} (the next start does it too)"
        return [warning("workspace", text, mend)]
    return [ok("workspace", str(folder))]


def _nearest(folder: Path) -> Path:
    """The closest parent that is there."""
    return next((parent for parent in folder.parents if parent.exists()), Path("/"))


def _disk(folder: Path) -> list[Finding]:
    place = folder if folder.exists() else _nearest(folder)
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        return [warning("disk", f"the room at {place} is not known: {error.strerror}", "look: df")]
    shown = f"{free / 1024**3:.1f} GiB" if free >= 1024**3 else f"{free // 1024**2} MiB"
    text = f"{shown} free at {place}"
    if free < FULL_BYTES:
        return [failure("disk", text, "make room: no task can be written down")]
    if free < LOW_BYTES:
        return [warning("disk", text, "make room: attachments and answers need some")]
    return [ok("disk", text)]


# --- who holds it


def _lock(holder: Holder, folder: Path) -> list[Finding]:
    if holder.held:
        return [ok("worker", f"a worker runs, pid {holder.pid}, and holds {folder}")]
    return [ok("worker", f"no worker runs with {folder}")]


def _token_in_use(credential: Credential, claims: Path) -> list[Finding]:
    """A worker with another workspace and the same token (relay-wire.md §15)."""
    name = claim_name(credential.gateway, credential.secret.reveal())
    other = holder_of(claims / name)
    if not other.held:
        return []
    text = f"another worker (pid {other.pid}) polls with this token: one started here stands by"
    return [warning("token.in_use", text, "stop that one, or make an agent of its own for this")]


# --- its files


def _stores(loaded: LoadedSettings, where: Layout, holder: Holder) -> list[Finding]:
    findings = _databases(where, in_use=holder.held)
    small: tuple[tuple[str, Path, Callable[[bytes], str], str], ...] = (
        (
            "sessions",
            loaded.settings.session_store or where.sessions,
            sessions.problem,
            "nothing to do: conversations begin anew, and it is kept as .bad when the first of "
            "them is written down; or restore it while no worker runs",
        ),
        (
            "access",
            where.access,
            _access_problem,
            "correct it; until then everybody is a guest here",
        ),
        (
            "children",
            where.children,
            children.problem,
            "move it away while no worker runs; agents that a crash left are then not ended",
        ),
    )
    for name, path, problem, mend in small:
        try:
            data = peek(path)
            why = problem(data) if data is not None else ""
        except StoreUnreadableError as error:
            findings.append(failure(f"store.{name}", str(error), f"move {path} away, or {mend}"))
            continue
        if why:
            level = failure if name == "access" else warning
            findings.append(level(f"store.{name}", f"{path} cannot be used: {why}", mend))
    findings += _strange_caps(where.access)
    if not findings:
        findings.append(ok("store", "what the worker keeps can be read"))
    return findings


def _databases(where: Layout, *, in_use: bool) -> list[Finding]:
    """What must not be lost: the worker refuses to go on without it, so these are failures."""
    findings: list[Finding] = []
    for name, path, schema, then, lost in (
        (
            "journal",
            where.journal,
            SCHEMA,
            "no task is taken until it is mended",
            "answers that were not posted yet are lost then",
        ),
        (
            "deliveries",
            where.deliveries,
            DELIVERIES,
            "nothing is delivered after its turn until it is mended",
            "deliveries under way are lost then, and what an agent holds for later cannot be sent",
        ),
    ):
        try:
            inspect(path, schema, in_use=in_use)
        except StoreUnreadableError as error:
            mend = (
                f"restore {path} from a backup, or stop the worker and move it away with its -wal "
                f"and -shm: {lost}"
            )
            findings.append(failure(f"store.{name}", f"{error}; {then}", mend))
    return findings


def _access_problem(data: bytes) -> str:
    try:
        access.read_map(data)
    except ValueError as error:
        return str(error)
    return ""


def _strange_caps(path: Path) -> list[Finding]:
    """Entries of a map that is in force, which name no tier."""
    try:
        unknown = access.read_map(peek(path) or b"{}").unknown
    except (StoreUnreadableError, ValueError):
        return []  # said already
    if not unknown:
        return []
    return [warning("store.access", access.unknown_values(unknown), f"correct them in {path}")]


# --- the status file


def _status(path: Path, holder: Holder) -> list[Finding]:
    try:
        raw = peek(path)
    except StoreUnreadableError as error:
        return [warning("status", str(error), f"move {path} away")]
    if raw is None:
        if holder.held:
            text = f"a worker runs and writes no {path}"
            return [warning("status", text, "see its log: the file cannot be written")]
        return []
    found = judge(raw, time.time())
    findings = _clock(found)
    if not holder.held:
        return findings
    view = found.status
    findings += _delivery(raw)
    if found.verdict is not Verdict.FRESH:
        text = f"the running worker is {found.verdict.value}: {found.detail}"
        return [
            *findings,
            warning("status", text, "agent-connect status; agent-connect service logs"),
        ]
    if view is not None and view.relay is not None and view.relay.state == "standby":
        text = "the running worker stands by: another one polls with this token"
        mend = "stop that one, or make an agent of its own for this"
        findings.append(warning("status", text, mend))
    elif view is not None and view.relay is not None and not view.relay.connected:
        text = f"the running worker is not connected: {view.relay.state}: {view.relay.error or ''}"
        findings.append(warning("status", text.rstrip(": "), "see the lines about the relay"))
    return findings


def _delivery(raw: bytes) -> list[Finding]:
    """What the running worker says of deferred delivery, once it says something."""
    try:
        block = msgspec.json.decode(raw, type=_Blocks).delivery
    except (msgspec.DecodeError, RecursionError):
        return []
    if block is None or not block.state:
        return []
    if block.state == "enabled":
        return [ok("delivery", "results that come after their turn are delivered")]
    if (block.reason or "").startswith(NO_FAULT):
        why = next(said for said in NO_FAULT if (block.reason or "").startswith(said))
        text = f"nothing is delivered after its turn: {why[:1].lower()}{why[1:].rstrip('.')}"
        return [ok("delivery", text)]
    text = f"results that come after their turn are not delivered: {block.state}, {block.reason}"
    mend = "mend what it names; where the worker does not see that in a minute, restart it"
    return [warning("delivery", text, mend)]


class _Delivery(msgspec.Struct):
    state: str = ""
    reason: str | None = None


class _Blocks(msgspec.Struct):
    delivery: _Delivery | None = None


def _clock(found: Judgement) -> list[Finding]:
    if found.age_s is None or found.age_s >= -CLOCK_S:
        return []
    text = (
        f"the status file was written {duration(-found.age_s)} in the future: a clock was set back"
    )
    return [warning("clock", text, "set the clock, best by NTP; then restart the worker")]
