"""`python -m trainyard` is lint-jobs."""

import sys

try:
    from trainyard.cli import main

    sys.exit(main())
except KeyboardInterrupt:
    sys.exit(130)
