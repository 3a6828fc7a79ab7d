"""Talking to the broker: tasks in, answers out, room ops beside them (relay-wire.md)."""

from agentconnect.relay.capabilities import Capabilities
from agentconnect.relay.client import Relay, RelayConfig, open_relay
from agentconnect.relay.egress import Egress
from agentconnect.relay.keyed import KeyedPosts
from agentconnect.relay.probe import Bearer, Probe, Reach, probe_relay
from agentconnect.relay.state import RelayStatus

__all__ = [
    "Bearer",
    "Capabilities",
    "Egress",
    "KeyedPosts",
    "Probe",
    "Reach",
    "Relay",
    "RelayConfig",
    "RelayStatus",
    "open_relay",
    "probe_relay",
]
