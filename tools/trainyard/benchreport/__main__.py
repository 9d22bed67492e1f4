"""The command line of bench-report."""

import sys

from trainyard.benchreport.command import main

sys.exit(main())
