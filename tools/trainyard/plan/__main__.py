"""The command line of plan-job."""

import sys

from trainyard.plan.command import main

sys.exit(main())
