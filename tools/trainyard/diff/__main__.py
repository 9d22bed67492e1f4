"""python -m trainyard.diff"""

import sys

from trainyard.diff.command import main

sys.exit(main())
