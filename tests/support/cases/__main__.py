"""``python -m tests.support.cases FILE…``."""

import sys

from tests.support.cases.runner import main

sys.exit(main(sys.argv[1:], print, lambda text: print(text, file=sys.stderr)))
