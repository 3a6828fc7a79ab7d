"""The kinds known so far: a case file's stem → what makes its cases."""

from tests.support.cases import (
    backoff,
    channel_delivery,
    config_env,
    credentials,
    delivery_keys,
    envelope,
    markers,
    media_markers,
    permission_policy,
)
from tests.support.cases.case import Kind

KINDS: dict[str, Kind] = {
    "backoff": backoff.cases,
    "channel_delivery": channel_delivery.cases,
    "config_env": config_env.cases,
    "credentials": credentials.cases,
    "delivery_keys": delivery_keys.cases,
    "envelope": envelope.cases,
    "markers": markers.cases,
    "media_markers": media_markers.cases,
    "permission_policy": permission_policy.cases,
}
