"""`python -m trainyard` is lint-jobs."""

import sys

from trainyard.cli import main

sys.exit(main())
