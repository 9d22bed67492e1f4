"""The command line of verify-jobs."""

import sys

from trainyard.verify.command import main

sys.exit(main())
