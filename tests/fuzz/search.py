"""One search: Atheris, which is libFuzzer for Python, on one target. run.py starts it and reads what it prints.

python -m tests.fuzz.search TARGET [LIBFUZZER FLAG...] FOLDER...
"""

import os
import sys

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

AGAIN = "SEARCH_AGAIN"
"""The variable with the program that libFuzzer starts for its own parts, such as those of a merge."""


def main() -> None:
    """Search until the time in the flags is up or the promise is broken."""
    _, name, *flags = sys.argv
    atheris.enabled_hooks.add("str")
    with atheris.instrument_imports(include=["trainyard"]):
        from tests.fuzz.targets import TARGETS
        from trainyard.rules.index import all_rules

        all_rules()
    atheris.Setup([os.environ.get(AGAIN, sys.argv[0]), *flags], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
