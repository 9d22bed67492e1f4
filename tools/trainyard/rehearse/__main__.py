"""The command line of rehearse-job."""

import sys

from trainyard.rehearse.command import main

sys.exit(main())
