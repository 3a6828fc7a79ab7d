"""The relay: is it there, is it a relay, does it take the token, do the clocks agree.

No task is leased and nothing is claimed, so a running worker notices nothing.
"""

import time

from agentconnect.core.doctor import Finding, failure, ok, warning
from agentconnect.core.relay.credential import Credential, redact_url
from agentconnect.core.status_text import duration
from agentconnect.relay import Bearer, Probe, Reach, probe_relay

CLOCK_S = 60.0


async def look(credential: Credential | None) -> list[Finding]:
    """The lines about the relay."""
    if credential is None:
        text = "not checked: without a usable token there is no address to call"
        return [warning("relay", text, "mend the token first")]
    found = await probe_relay(credential)
    return judge(found, redact_url(credential.gateway), time.time())


def judge(found: Probe, shown: str, wall_now: float) -> list[Finding]:
    """What was found, in words."""
    if found.reach not in (Reach.RELAY, Reach.ERROR):
        text, mend = _unreached(found, shown)
        return [failure("relay.reach", text, mend)]
    if found.reach is Reach.ERROR:
        mend = "if that stays so, ask whoever runs the relay"
        findings = [failure("relay.reach", f"{shown} does not work: {found.why}", mend)]
    else:
        findings = [ok("relay.reach", f"{shown} answers")]
    findings += _bearer(found)
    if found.clock is not None and abs(found.clock - wall_now) > CLOCK_S:
        ahead = "behind" if found.clock > wall_now else "ahead of"
        text = (
            f"this machine's clock is {duration(abs(found.clock - wall_now))} {ahead} the relay's"
        )
        findings.append(warning("relay.clock", text, "set the clock, best by NTP"))
    return findings


def _bearer(found: Probe) -> list[Finding]:
    if found.bearer is Bearer.REJECTED:
        text = f"the relay does not take this token ({found.bearer_why})"
        mend = (
            "the agent was removed or its token replaced: paste the new one from where it was made"
        )
        return [failure("relay.token", text, mend)]
    if found.bearer is Bearer.UNKNOWN:
        text = f"whether the relay takes this token was not checked: {found.bearer_why}"
        mend = "start the worker and see agent-connect status"
        return [warning("relay.token", text, mend)]
    keyed = "" if found.keyed else "; it has no keyed posts, so a lost answer may repeat a message"
    return [ok("relay.token", f"the relay takes the token{keyed}")]


def _unreached(found: Probe, shown: str) -> tuple[str, str]:
    """The sentence and the mend of a call that did not arrive."""
    network = "look at this machine's network; the worker itself goes on trying"
    if found.reach is Reach.NO_ADDRESS:
        return (
            f"the name in {shown} has no address ({found.why})",
            "compare the address in the token, and this machine's DNS",
        )
    if found.reach is Reach.UNTRUSTED:
        return (
            f"the certificate of {shown} is not trusted: {found.why}",
            "if a proxy in between makes its own certificates, add its root to the system's trust",
        )
    if found.reach is Reach.NO_TLS:
        return (
            f"{shown} does not speak TLS as it should ({found.why})",
            "compare https or http, and the port, in the address",
        )
    if found.reach is Reach.REFUSED:
        return (
            f"nothing listens at {shown}: the connection was refused",
            "start the relay, or compare the address and port in the token",
        )
    if found.reach is Reach.SILENT:
        return f"{shown} did not answer in time", network
    return (
        f"{shown} answers, but not as a relay: {found.why}",
        "compare the address in the token; a sign-in page or a proxy may stand in between",
    )
