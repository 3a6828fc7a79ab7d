"""Time zones from their rules alone: what a machine knows of zones does not change a test."""

from agentconnect.store.zone import rule_zone

BERLIN = rule_zone("CET-1CEST,M3.5.0,M10.5.0/3")
NEW_YORK = rule_zone("EST5EDT,M3.2.0,M11.1.0")
LORD_HOWE = rule_zone("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0")
"""Half an hour of summer time, in the south."""
CAIRO = rule_zone("EET-2EEST,M4.5.5/0,M10.5.4/24")
"""The gap is at midnight."""
UTC0 = rule_zone("UTC0")
