"""``scripts/simulate --histories N --seed S``: random histories, until one breaks a promise."""

import argparse
import secrets
import sys
import time

from tests.core.delivery.machine.checks import Violation
from tests.core.delivery.machine.sim import STEPS, run_history


def main() -> int:
    """0: all held; 1: one did not, and its seed is printed."""
    asked = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    asked.add_argument("--histories", type=int, default=2000, help="how many (2000)")
    asked.add_argument("--seed", default="", help="of the first history (random)")
    asked.add_argument("--steps", type=int, default=STEPS, help=f"actions in each ({STEPS})")
    given = asked.parse_args()
    seed = given.seed or secrets.token_hex(4)
    print(f"{given.histories} histories from seed {seed}", flush=True)
    began = time.monotonic()
    for number in range(given.histories):
        name = seed if number == 0 else f"{seed}.{number}"
        try:
            run_history(name, given.steps)
        except Violation as violation:
            print(f"FAILED after {number} histories: {violation}")
            print(f"again: scripts/simulate --histories 1 --seed {name} --steps {given.steps}")
            return 1
    print(f"all held, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
