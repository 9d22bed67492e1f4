"""Searches for inputs that break a parser's promise, guided by coverage, and keeps each that does.

    pip install -r requirements/lint.txt atheris
    PYTHONPATH=tools:. python tests/fuzz/run.py yaml --seconds 600

Atheris runs the target of that name in targets.py. It starts from corpus/<target>/ and ends with 0 where nothing broke.
Where something did, the input is in corpus/<target>/ as `found-...`: mend the fault, and commit both.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

CORPUS = Path(__file__).parent / "corpus"


def main() -> None:
    """Search until the time is up or a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=300)
    options = parser.parse_args()
    with atheris.instrument_imports(include=["trainyard"]):
        from tests.fuzz.targets import TARGETS
        from trainyard.rules import all_rules

        all_rules()
    folder = CORPUS / options.target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as grown:
        flags = [f"-max_total_time={options.seconds}", "-max_len=4096", "-timeout=20", "-rss_limit_mb=2048"]
        flags += [f"-artifact_prefix={folder}/found-", "-print_final_stats=1", "-use_value_profile=1"]
        atheris.Setup([sys.argv[0], *flags, grown, str(folder)], TARGETS[options.target])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
