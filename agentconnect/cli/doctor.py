"""``agent-connect doctor``: every check, one line each, and what to do about it (worker.md §1)."""

import logging
import os

import trio

from agentconnect.cli.console import put, say
from agentconnect.cli.options import Options
from agentconnect.core.doctor import as_json, as_lines
from agentconnect.doctor import examine


def run_doctor(options: Options) -> int:
    """Print the report; 1 where something failed, else 0."""
    logging.disable(logging.CRITICAL)  # the report says it, in its own words
    found = trio.run(examine, options.config, dict(os.environ), options.umask)
    if options.json:
        put([as_json(found).decode()])
    else:
        say("\n".join(as_lines(found)))
    return found.exit_code
