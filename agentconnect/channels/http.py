"""The door to every provider: httpx on Trio, with nothing of the environment and nothing repeated.

No proxy, no redirect, no cookie of another request, no answer above a bound. What the library says
is never quoted: its sentences hold addresses, and an address may hold a token (§13).
"""

import ssl
from contextlib import aclosing
from importlib.metadata import version

import httpx
import trio

from agentconnect.core.channels.sending import Ask, DeliveryError, Reply
from agentconnect.httpbody import Body

ANSWER_BYTES = 1024 * 1024
CONNECTIONS = 16
_TIMEOUT = httpx.Timeout(connect=5.0, read=15.0, write=15.0, pool=5.0)


class HttpDoor:
    """One client of one adapter."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        self._client = httpx.AsyncClient(
            verify=trust,
            trust_env=False,
            follow_redirects=False,
            timeout=_TIMEOUT,
            # equal, or nothing is kept at all (stack.md §7)
            limits=httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
            headers={
                "User-Agent": f"agentconnect/{version('agentconnect')}",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
            },
        )

    async def ask(self, ask: Ask) -> Reply:
        """As ``Door``. Cancellation: the connection is closed."""
        try:
            return await self._ask(ask)
        except httpx.TimeoutException as error:
            raise DeliveryError("transient", f"no answer in time ({_kind(error)})") from None
        except httpx.HTTPError as error:
            raise DeliveryError("transient", f"no answer ({_kind(error)})") from None
        except (httpx.InvalidURL, UnicodeError, ValueError, OSError) as error:
            raise DeliveryError("transient", f"no request ({_kind(error)})") from None

    async def knock(self, url: str) -> None:
        """As ``Door``."""
        where = httpx.URL(url)
        secure = where.scheme == "https"
        try:
            with trio.fail_after(5.0):
                stream = await trio.open_tcp_stream(
                    where.host, where.port or (443 if secure else 80)
                )
        except (OSError, trio.TooSlowError) as error:
            raise DeliveryError("transient", f"no connection ({_kind(error)})") from None
        await trio.aclose_forcefully(stream)

    async def aclose(self) -> None:
        """As ``Door``."""
        with trio.move_on_after(1.0, shield=True):
            await self._client.aclose()

    async def _ask(self, ask: Ask) -> Reply:
        body = bytearray()
        request = self._client.build_request(
            ask.method, ask.url, content=ask.content, headers=dict(ask.headers)
        )
        request.stream = Body(ask.content or b"")
        with trio.CancelScope() as reading:  # may end: the answer is too big
            response = await self._client.send(request, stream=True)
            async with aclosing(response):
                plain = response.headers.get("content-encoding", "identity") == "identity"
                async for block in response.aiter_raw():
                    if len(body) + len(block) > ANSWER_BYTES:
                        reading.cancel()  # no break: that leaves the stream half open
                    elif plain:
                        body += block
            self._client.cookies.clear()
            if not reading.cancel_called:  # it may end before a cancel is noticed
                return Reply(status=response.status_code, body=bytes(body))
        raise DeliveryError("transient", "the answer is too big")


def _kind(error: Exception) -> str:
    return type(error).__name__


def trust() -> ssl.SSLContext:
    """The system's trust. Blocking: it reads files."""
    return ssl.create_default_context()
