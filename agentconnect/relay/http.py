"""The door to the relay: one call out, an answer or one of our errors back.

Every call has a total deadline and a bounded answer, goes to the URL given and nowhere else (no
redirect, no proxy, no cookie), and reads the bearer when it is sent (relay-wire.md §1). Errors name
the address redacted and never quote what the library said: that may hold a header.
"""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, lru_cache
from urllib.parse import quote, urlsplit

import httpx
import msgspec
import trio

from agentconnect.core.errors import AuthRejectedError, InvariantError, RelayError
from agentconnect.core.relay.cadence import retry_after_s
from agentconnect.core.relay.credential import redact_url
from agentconnect.httpbody import Body
from agentconnect.relay.foreign import PublicResolver
from agentconnect.relay.resolver import Resolver
from agentconnect.relay.transport import REPEATABLE, Transport, trust

USER_AGENT = "sutando-gateway-client/1.0"
"""The edge refuses the default names of HTTP libraries, which then reads as a revoked bearer."""

POLL_ANSWER_BYTES = 32 * 1024 * 1024
ANSWER_BYTES = 1024 * 1024
ERROR_BYTES = 64 * 1024
CONNECTIONS = 32
FOREIGN_CONNECTIONS = 4
CONNECT_S = 8.0


Take = Callable[[bytes], Awaitable[None]]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request. ``path`` is under the base unless ``url`` is given; ``content`` is JSON.

    ``stall_s`` bounds each read and write within ``within_s``. ``once``: the caller has to hear of
    each attempt that may have arrived, though its key would let it be repeated unseen.
    ``overflow``: an answer of more than ``answer_bytes`` comes back marked, not as an error.
    """

    method: str = "GET"
    path: str = ""
    url: str = ""
    content: bytes | None = None
    key: str = ""
    once: bool = False
    accept: str = "application/json"
    within_s: float = 15.0
    stall_s: float = float("inf")
    answer_bytes: int = ANSWER_BYTES
    overflow: bool = False
    last_event_id: str = ""
    with_bearer: bool = True


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A 2xx. ``echo`` is the ``Idempotency-Status`` header, ``mime`` the content type, ``date`` the
    relay's clock.
    """

    status: int
    body: bytes
    mime: str = ""
    echo: str = ""
    date: str = ""
    whole: bool = True

    def json(self) -> object:
        """The body as JSON; an empty one is ``{}``. Raises: RelayError where it is not JSON."""
        text = self.body.strip()
        if not text:
            return {}
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        try:
            return json.loads(text.decode("utf-8", "replace"))  # takes what msgspec is strict on
        except (ValueError, RecursionError) as error:
            raise RelayError("the relay's answer is not JSON", status=self.status) from error

    def fields(self) -> Mapping[str, object]:
        """The body as a JSON object; anything else counts as an empty one. Raises: RelayError."""
        found = self.json()
        return found if isinstance(found, dict) else {}


def to_json(value: object) -> bytes:
    """JSON for a request body; the caller has cleaned its texts."""
    return msgspec.json.encode(value)


def segment(text: str) -> str:
    """One path segment, with nothing left unescaped (relay-wire.md §3)."""
    return quote(text, safe="")


class Http:
    """Connections for the long poll and others for everything else.

    Straight on the transport, below httpx's client: no redirects, proxies, cookies or netrc exist
    down here. Both share one TLS context with the system's trust.
    """

    def __init__(
        self,
        base: str,
        bearer: Callable[[], str],
        *,
        user_agent: str = USER_AGENT,
        on_unauthorized: Callable[[], None] = lambda: None,
        foreign: Resolver | None = None,
    ) -> None:
        self.base = base
        self._bearer = bearer
        self._user_agent = user_agent.encode("ascii")
        self._on_unauthorized = on_unauthorized
        tls, resolver = cache(trust), Resolver()
        if urlsplit(base).scheme.lower() == "https":
            tls()  # takes a while: better now than in a call
        self._polls = Transport(connections=2, tls=tls, resolver=resolver)
        self._calls = Transport(connections=CONNECTIONS, tls=tls, resolver=resolver)
        self._foreign = Transport(
            connections=FOREIGN_CONNECTIONS, tls=tls, resolver=foreign or PublicResolver()
        )
        self._streams = Transport(connections=1, tls=tls, resolver=resolver)

    async def aclose(self) -> None:
        """Close all connections, also when cancelled. Never waits."""
        with trio.CancelScope(shield=True):
            for transport in (self._polls, self._calls, self._foreign, self._streams):
                await transport.aclose()

    async def poll(self, wait_s: int, within_s: float) -> Answer:
        """One ``GET /v1/tasks``. Raises: RelayError, AuthRejectedError."""
        call = Call(
            path=f"/v1/tasks?wait={wait_s}",
            within_s=within_s,
            answer_bytes=POLL_ANSWER_BYTES,
        )
        return await self._bounded(self._polls, call)

    async def send(self, call: Call) -> Answer:
        """Any other call; one without the bearer only to public addresses.

        Raises: AuthRejectedError for 401 and 403 (a 401 under the bearer also asks for a look at
        the credential), RelayError for everything else but a 2xx.
        """
        try:
            transport = self._calls if call.with_bearer else self._foreign
            return await self._bounded(transport, call)
        except AuthRejectedError as error:
            if error.status == 401 and call.with_bearer:
                self._on_unauthorized()
            raise

    async def stream(self, call: Call, take: Take) -> None:
        """Hand each block of an answer's body to ``take``, an empty one once it has begun.

        Raises: RelayError, AuthRejectedError, and whatever ``take`` raises.
        """
        await self._bounded(self._streams, call, take)

    async def _bounded(self, transport: Transport, call: Call, take: Take | None = None) -> Answer:
        url = call.url or self.base + call.path
        try:
            with trio.CancelScope(relative_deadline=call.within_s):  # may end: the call's time
                return await self._exchange(transport, call, url, take)
            raise RelayError(f"{_where(call, url)} took longer than {call.within_s:g} s")
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise RelayError(f"{_where(call, url)}: no connection", sent=False) from error
        except httpx.WriteError as error:  # a request that is cut short is no request
            raise RelayError(f"{_where(call, url)}: not sent whole", sent=False) from error
        except httpx.TimeoutException as error:
            raise RelayError(f"{_where(call, url)}: no progress for {call.stall_s:g} s") from error
        except (httpx.LocalProtocolError, httpx.InvalidURL, UnicodeError) as error:
            raise RelayError(
                f"{_where(call, url)}: the request cannot be written", sent=False
            ) from error
        except httpx.HTTPError as error:
            raise RelayError(f"{_where(call, url)}: {type(error).__name__}") from error

    async def _exchange(
        self, transport: Transport, call: Call, url: str, take: Take | None
    ) -> Answer:
        address = _parsed(call.url or self.base)
        extensions = {
            "timeout": _timeouts(call),
            # a call without a key is tried again by its caller, who knows what it costs
            REPEATABLE: bool(call.key) and not call.once,
        }
        if not call.url:  # a path of ours is fit to be sent: parsing each costs more than sending
            extensions["target"] = address.raw_path.rstrip(b"/") + call.path.encode("ascii")
        request = httpx.Request(
            call.method,
            address,
            headers=self._headers(call, address),
            stream=Body(call.content or b""),
            extensions=extensions,
        )
        response = await transport.handle_async_request(request)
        try:
            if take is not None and 200 <= response.status_code < 300:
                return await _pass_on(response, take)
            return await _read(response, call, url)
        finally:
            await response.aclose()

    def _headers(self, call: Call, address: httpx.URL) -> list[tuple[bytes, bytes]]:
        """All of them: with a stream given, httpx adds none."""
        headers = [
            (b"Host", address.netloc),
            (b"User-Agent", self._user_agent),
            (b"Accept", call.accept.encode("ascii")),
            (b"Accept-Encoding", b"identity"),
        ]
        if call.with_bearer:
            headers.append((b"Authorization", b"Bearer " + self._bearer().encode("ascii")))
        if call.content is not None:
            headers.append((b"Content-Type", b"application/json"))
            headers.append((b"Content-Length", b"%d" % len(call.content)))
        if call.last_event_id:
            headers.append((b"Last-Event-ID", call.last_event_id.encode("ascii")))
        if call.key:
            headers.append((b"Idempotency-Key", call.key.encode("ascii")))
        return headers


async def _pass_on(response: httpx.Response, take: Take) -> Answer:
    await take(b"")
    async for block in _stream_of(response):
        await take(block)
    return Answer(status=response.status_code, body=b"")


async def _read(response: httpx.Response, call: Call, url: str) -> Answer:
    status = response.status_code
    good = 200 <= status < 300
    headers = dict(response.headers.raw)  # in lower case: our transport's
    if headers.get(b"content-encoding", b"identity") != b"identity":
        where = _where(call, url)
        raise RelayError(f"{where} answered in an encoding nobody asked for", status=status)
    limit = call.answer_bytes if good else ERROR_BYTES
    body, whole = await _body(response, limit)
    if good:
        if not whole and not call.overflow:
            where = _where(call, url)
            raise RelayError(f"{where} answered more than {limit} bytes", status=status)
        return Answer(
            status=status,
            body=body,
            whole=whole,
            mime=headers.get(b"content-type", b"").decode("latin-1"),
            echo=headers.get(b"idempotency-status", b"").decode("latin-1"),
            date=headers.get(b"date", b"").decode("latin-1"),
        )
    raise _refusal(response, body.decode("utf-8", "replace"), _where(call, url))


async def _body(response: httpx.Response, limit: int) -> tuple[bytes, bool]:
    """At most ``limit`` bytes, and whether that was all."""
    stream = _stream_of(response)
    chunks: list[bytes] = []
    size = 0
    async for chunk in stream:
        size += len(chunk)
        if size > limit:
            return b"".join(chunks), False
        chunks.append(chunk)
    return b"".join(chunks), True


def _stream_of(response: httpx.Response) -> httpx.AsyncByteStream:
    stream = response.stream
    if not isinstance(stream, httpx.AsyncByteStream):
        raise InvariantError("a response of the wrong kind")
    return stream


def _refusal(response: httpx.Response, body: str, where: str) -> RelayError:
    status = response.status_code
    if status in (401, 403):
        return AuthRejectedError(f"{where} answered {status}", status=status, body=body)
    if 300 <= status < 400:
        target = redact_url(response.headers.get("location", ""))
        return RelayError(f"{where} points elsewhere ({target}): not followed", status=status)
    return RelayError(
        f"{where} answered {status}",
        status=status,
        body=body,
        retry_after_s=retry_after_s(response.headers.get("retry-after"), wall_now=time.time()),
    )


def _timeouts(call: Call) -> dict[str, float]:
    """Steps of a call that get a bound of their own; the whole has one anyway."""
    bounds = {"connect": CONNECT_S, "pool": CONNECT_S}
    if call.stall_s < call.within_s:
        bounds["read"] = bounds["write"] = call.stall_s
    return bounds


@lru_cache(maxsize=256)
def _parsed(url: str) -> httpx.URL:
    """The same few addresses are called all day. Raises: httpx.InvalidURL."""
    return httpx.URL(url)


def _where(call: Call, url: str) -> str:
    """What an error may say of a call."""
    return f"{call.method} {redact_url(url)}"
