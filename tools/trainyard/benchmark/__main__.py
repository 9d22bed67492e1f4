"""The command line of the chain's steps."""

import sys

from trainyard.benchmark.command import main

sys.exit(main())
