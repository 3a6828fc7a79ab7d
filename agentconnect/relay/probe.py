"""How far a call to the relay gets, for ``doctor``: three questions that take nothing.

``/v1/healthz`` leases and claims nothing; ``/v1/capabilities`` needs the bearer and has no side
effect. A relay without the second is asked to acknowledge a task that cannot exist: it refuses a
wrong bearer before it looks for the task (relay-wire.md §3.2, §3.5, §3.9). No task is asked for.
"""

import socket
import ssl
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from enum import StrEnum

import msgspec

from agentconnect.core.delivery.capability import judge
from agentconnect.core.errors import AuthRejectedError, RelayError
from agentconnect.core.relay.credential import Credential
from agentconnect.relay.http import Answer, Call, Http

WITHIN_S = 6.0
NO_TASK = "agent-connect-doctor-no-such-task"


class Reach(StrEnum):
    """How far the first call got."""

    RELAY = "relay"
    NO_ADDRESS = "no address"
    UNTRUSTED = "untrusted"
    NO_TLS = "no tls"
    REFUSED = "refused"
    SILENT = "silent"
    ERROR = "error"
    NOT_A_RELAY = "not a relay"


class Bearer(StrEnum):
    """What the relay makes of the token."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. ``why`` is for people, without secrets; ``clock`` is the relay's, in seconds
    since 1970.
    """

    reach: Reach
    why: str = ""
    bearer: Bearer = Bearer.UNKNOWN
    bearer_why: str = ""
    clock: float | None = None
    keyed: bool = False


async def probe_relay(credential: Credential, within_s: float = WITHIN_S) -> Probe:
    """Ask. Bounded by three times ``within_s``. Never raises for what the network does."""
    http = Http(credential.gateway, credential.secret.reveal)
    try:
        reach, why, clock = await _reach(http, within_s)
        if reach not in (Reach.RELAY, Reach.ERROR):
            return Probe(reach=reach, why=why, clock=clock)
        bearer, bearer_why, keyed = await _bearer(http, within_s)
        return Probe(
            reach=reach, why=why, bearer=bearer, bearer_why=bearer_why, clock=clock, keyed=keyed
        )
    finally:
        await http.aclose()


async def _reach(http: Http, within_s: float) -> tuple[Reach, str, float | None]:
    try:
        answer = await http.send(Call(path="/v1/healthz", within_s=within_s))
    except RelayError as error:
        return *_failed(error), None
    clock = _seconds(answer.date)
    try:
        if isinstance(answer.json(), dict) and answer.body.strip():
            return Reach.RELAY, "", clock
    except RelayError:
        pass
    what = "a web page" if "html" in answer.mime.lower() else "something that is not JSON"
    return Reach.NOT_A_RELAY, f"it answered with {what}", clock


async def _bearer(http: Http, within_s: float) -> tuple[Bearer, str, bool]:
    try:
        answer = await http.send(Call(path="/v1/capabilities", within_s=within_s))
    except AuthRejectedError as error:
        return Bearer.REJECTED, f"it answered {error.status}", False
    except RelayError as error:
        if error.status in (404, 405):
            return *await _by_an_ack(http, within_s), False
        return Bearer.UNKNOWN, str(error), False
    if not _is_object(answer):
        return Bearer.UNKNOWN, "its answer about capabilities is not JSON", False
    return Bearer.ACCEPTED, "", judge(answer.status, answer.body).passed


async def _by_an_ack(http: Http, within_s: float) -> tuple[Bearer, str]:
    call = Call(
        method="POST",
        path=f"/v1/tasks/{NO_TASK}/ack",
        content=msgspec.json.encode({"id": NO_TASK}),
        within_s=within_s,
    )
    try:
        await http.send(call)
    except AuthRejectedError as error:
        return Bearer.REJECTED, f"it answered {error.status}"
    except RelayError as error:
        if error.status == 404 and "not leased" in error.body:
            return Bearer.ACCEPTED, ""
    why = "it has no question that needs the token and takes no task"
    return Bearer.UNKNOWN, why


def _failed(error: RelayError) -> tuple[Reach, str]:
    """What a failed call means, by what caused it."""
    if error.status is not None:
        if error.status in (404, 405) or 300 <= error.status < 400:
            return Reach.NOT_A_RELAY, str(error)
        return Reach.ERROR, str(error)
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Reach.UNTRUSTED, cause.verify_message or "it is not trusted"
        if isinstance(cause, ssl.SSLError):
            return Reach.NO_TLS, cause.reason or "no TLS"
        if isinstance(cause, socket.gaierror):
            return Reach.NO_ADDRESS, cause.strerror or ""
        if isinstance(cause, ConnectionRefusedError):
            return Reach.REFUSED, ""
    if any(isinstance(cause, TimeoutError) for cause in _causes(error)) or "longer" in str(error):
        return Reach.SILENT, ""
    return Reach.ERROR, str(error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    for _ in range(20):
        if found is None:
            return
        yield found
        found = found.__cause__ or found.__context__


def _is_object(answer: Answer) -> bool:
    try:
        return isinstance(answer.json(), dict) and bool(answer.body.strip())
    except RelayError:
        return False


def _seconds(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, OverflowError):
        return None
