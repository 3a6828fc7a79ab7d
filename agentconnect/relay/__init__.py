"""Talking to the broker: tasks in, answers out, room ops beside them (relay-wire.md)."""

from agentconnect.relay.client import Relay, RelayConfig, open_relay
from agentconnect.relay.egress import Egress
from agentconnect.relay.probe import Bearer, Probe, Reach, probe_relay
from agentconnect.relay.state import RelayStatus

__all__ = [
    "Bearer",
    "Egress",
    "Probe",
    "Reach",
    "Relay",
    "RelayConfig",
    "RelayStatus",
    "open_relay",
    "probe_relay",
]
