"""``python -m postmortem``: the same as the command ``postmortem``."""

import sys

from postmortem.cli.main import main

sys.exit(main())
