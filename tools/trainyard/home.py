"""Where the files lie that the programs need beside their code: schemas, and programs that were built.

In a checkout that is the repository. An installed package brings its own, in the folder `installed` of the package.
"""

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
IS_INSTALLED = (PACKAGE / "installed").is_dir()
HOME = PACKAGE / "installed" if IS_INSTALLED else PACKAGE.parents[1]
"""Holds schemas/, base/, overlays/ and example clusters/ and jobs/; in a checkout also whatever else it has."""
BUILT = HOME if IS_INSTALLED else HOME / ".tools"
"""Holds bin/; in a checkout also the environments and the control plane."""


def as_called(text: str) -> str:
    """A text whose `tools/lint-jobs` is what its reader can run: that in a checkout, `trainyard lint` elsewhere."""
    return re.sub(r"\btools/([a-z]+)-jobs?\b", r"trainyard \1", text) if IS_INSTALLED else text
