"""python -m trainyard.author"""

import sys

from trainyard.author.command import main

sys.exit(main())
