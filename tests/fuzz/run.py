"""Searches for inputs that break a promise of targets.py, guided by coverage.

examples:
  tools/fuzz                         every target in turn, an hour in all
  tools/fuzz --minutes 480           a night
  tools/fuzz yaml edits --minutes 5  two of them
  tools/fuzz --sum                   what all runs in this checkout came to
  tools/fuzz --keep                  adds to tests/fuzz/corpus what the runs grew, as far as it reaches new code

It uses one core. What it grows stays in .tools/cache/fuzz, and the next run goes on from there. A target ends at the
first input that breaks its promise: the input is written to tests/fuzz/corpus/TARGET/found-..., which
tests/fuzz/test_corpus.py runs from then on. Mend the fault, give the file a name, commit both.

exit codes:
  0    no promise was broken
  1    one was
  2    bad usage
  3    a search ended for another reason; its last output is shown
  130  interrupted; what was done until then is counted
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from trainyard import commandline
from trainyard.errors import UsageError

HOME = Path(__file__).resolve().parents[2]
CORPUS = HOME / "tests/fuzz/corpus"
WORK = HOME / ".tools/cache/fuzz"
RUNS = WORK / "runs.jsonl"
SEARCH = (sys.executable, "-m", "tests.fuzz.search")
TURN = 300
"""Seconds that a target gets before the next one's turn, at most."""
KEPT = 16 * 1024
"""Bytes that --keep leaves in the corpus of one target, at most; what was found and what a person wrote comes first."""
MOST = 40
"""Inputs that --keep adds to a target at most."""
LONGEST = 4096
"""Bytes of an input."""
FLAGS = (f"-max_len={LONGEST}", "-timeout=10", "-rss_limit_mb=2048")
_STATUS = re.compile(r"^#(\d+)\s.*cov: (\d+) ft: (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Searched:
    """What the searches of one target came to."""

    target: str
    executions: int = 0
    seconds: float = 0.0
    edges: int = 0
    """Places in the code that were reached, as the fuzzer counts them; the most of any search."""
    new_inputs: int = 0
    """Inputs that reached what none had before."""
    findings: tuple[str, ...] = ()

    def __add__(self, other: "Searched") -> "Searched":
        return Searched(
            self.target,
            self.executions + other.executions,
            self.seconds + other.seconds,
            max(self.edges, other.edges),
            self.new_inputs + other.new_inputs,
            self.findings + other.findings,
        )


class EndedError(Exception):
    """A search ended for another reason than its time or a finding."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run fuzz. Returns its exit code."""
    return commandline.run("fuzz", lambda: _fuzz(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The command line. It needs the standard library alone: it is judged before the set-up."""
    parser = commandline.Parser(prog="fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", metavar="TARGET", help="what to search, of tests/fuzz/targets.py")
    parser.add_argument(
        "--minutes",
        type=commandline.number("number of minutes"),
        default=60.0,
        help="for all of them together (default: 60)",
    )
    parser.add_argument("--sum", action="store_true", help="search nothing, and say what all runs came to")
    parser.add_argument("--keep", action="store_true", help="search nothing, and keep what the runs grew")
    return parser


def _fuzz(options: argparse.Namespace) -> int:
    from tests.fuzz.targets import TARGETS

    if unknown := [target for target in options.target if target not in TARGETS]:
        raise UsageError(f"no target is called {unknown[0]}: there are {', '.join(TARGETS)}")
    targets = options.target or list(TARGETS)
    if options.sum:
        print(table(summed(earlier())))
        return 0
    if options.keep:
        for target in targets:
            print(f"{target}: {keep(target)} inputs kept")
        return 0
    return _search(targets, options.minutes * 60)


def _search(targets: Sequence[str], seconds: float) -> int:
    done = {target: Searched(target) for target in targets}
    code = 0
    try:
        for target, turn in turns(targets, seconds):
            if not done[target].findings:
                done[target] += search(target, turn)
    except KeyboardInterrupt:
        code = 130
    except EndedError as error:
        sys.stderr.write(f"{error}\n")
        code = 3
    print(table(done.values()))
    return code or int(any(each.findings for each in done.values()))


def turns(targets: Sequence[str], seconds: float) -> Iterable[tuple[str, int]]:
    """Which target is searched next and for how long: all get the same, in turns, so that an early end is fair."""
    left = seconds / len(targets)
    while left >= 1:
        turn = min(left, TURN)
        yield from ((target, int(turn)) for target in targets)
        left -= turn


def search(target: str, seconds: int) -> Searched:
    """Search one target, and say on stderr how far it is. EndedError where the search breaks down."""
    grown, own, log = WORK / target, CORPUS / target, WORK / f"{target}.log"
    grown.mkdir(parents=True, exist_ok=True)
    own.mkdir(parents=True, exist_ok=True)
    before = set(own.glob("found-*"))
    words = CORPUS.parent / "dictionary"
    flags = (
        *FLAGS,
        "-print_final_stats=1",
        "-use_value_profile=1",
        f"-max_total_time={seconds}",
        f"-artifact_prefix={own}/found-",
        f"-dict={words}",
    )
    began = 0.0
    with log.open("wb") as out:
        process = subprocess.Popen([*SEARCH, target, *flags, grown, own], cwd=HOME, stdout=out, stderr=out)
        try:
            while process.poll() is None:
                time.sleep(1)
                began = began or (time.monotonic() if read(target, log, 0.0).executions else 0.0)
                _tell(read(target, log, _since(began)), seconds)
        finally:
            process.terminate()
            process.wait()
            found = tuple(str(file.relative_to(HOME)) for file in sorted(set(own.glob("found-*")) - before))
            made = replace(read(target, log, _since(began)), findings=found)
            with RUNS.open("a") as runs:
                runs.write(json.dumps({"at": f"{datetime.now(UTC):%FT%TZ}", **asdict(made)}) + "\n")
            _tell(made, seconds, last=True)
    if process.returncode and not found:
        last = log.read_text(errors="replace").splitlines()[-12:]
        raise EndedError("\n".join([f"fuzz: the search of {target} ended with {process.returncode}", *last]))
    for each in found:
        sys.stderr.write(f"{target}: its promise is broken by {each}; {log.relative_to(HOME)} says how\n")
    return made


def _since(began: float) -> float:
    """Seconds of searching: importing the code with its probes comes before, and does not count."""
    return time.monotonic() - began if began else 0.0


def read(target: str, log: Path, seconds: float) -> Searched:
    """How far a search is, from what it printed so far."""
    text = log.read_text(errors="replace")
    status = _STATUS.findall(text)
    executions, edges, _ = status[-1] if status else (0, 0, 0)
    total = re.search(r"^stat::number_of_executed_units: (\d+)", text, re.MULTILINE)
    new = re.search(r"^stat::new_units_added: +(\d+)", text, re.MULTILINE)
    count = int(total[1]) if total else int(executions)
    return Searched(target, count, round(seconds, 1), int(edges), int(new[1]) if new else 0)


def _tell(found: Searched, seconds: int, *, last: bool = False) -> None:
    line = f"{found.target}: {found.seconds:.0f} of {seconds} s, {found.executions:,} executions, {found.edges:,} edges"
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{line}" + ("\n" if last else ""))
    elif last:
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def earlier() -> list[Searched]:
    """What the runs in this checkout wrote down."""
    lines = RUNS.read_text().splitlines() if RUNS.exists() else []
    found = []
    for line in lines:
        said = json.loads(line)
        del said["at"]
        found.append(Searched(**said | {"findings": tuple(said["findings"])}))
    return found


def summed(runs: Iterable[Searched]) -> list[Searched]:
    """One line a target."""
    found: dict[str, Searched] = {}
    for run in runs:
        found[run.target] = found[run.target] + run if run.target in found else run
    return [found[target] for target in sorted(found)]


def table(searched: Iterable[Searched]) -> str:
    """What was searched, a line a target and one for all, as Markdown."""
    rows = list(searched)
    head = ("target", "minutes", "executions", "edges", "new inputs", "findings")
    lines = [
        (
            each.target,
            f"{each.seconds / 60:.1f}",
            f"{each.executions:,}",
            f"{each.edges:,}",
            f"{each.new_inputs:,}",
            str(len(each.findings)),
        )
        for each in rows
    ]
    hours = sum(each.seconds for each in rows) / 3600
    lines.append(
        (
            f"all, {hours:.2f} h",
            f"{hours * 60:.1f}",
            f"{sum(each.executions for each in rows):,}",
            "",
            f"{sum(each.new_inputs for each in rows):,}",
            str(sum(len(each.findings) for each in rows)),
        )
    )
    wide = [max(len(row[column]) for row in (head, *lines)) for column in range(len(head))]
    shown = [
        "| "
        + " | ".join(f"{cell:<{wide[0]}}" if not at else f"{cell:>{wide[at]}}" for at, cell in enumerate(row))
        + " |"
        for row in (head, *lines)
    ]
    rule = "|" + "|".join("-" * (width + 1) + (":" if at else "-") for at, width in enumerate(wide)) + "|"
    return "\n".join([shown[0], rule, *shown[1:]])


def keep(target: str) -> int:
    """Add a few grown inputs that reach what the corpus does not, small ones first. Returns how many."""
    own, grown, fewest = CORPUS / target, WORK / target, WORK / f"{target}.fewest"
    shutil.rmtree(fewest, ignore_errors=True)
    fewest.mkdir(parents=True)
    for file in own.glob("grown-*"):
        shutil.move(file, grown / file.name)
    for file in own.iterdir():
        shutil.copy(file, fewest)
    written = {file.name for file in fewest.iterdir()}
    command: list[str | Path] = [*SEARCH, target, *FLAGS, "-merge=1", "-set_cover_merge=1", fewest, grown]
    again = WORK / f"{target}.sh"
    again.write_text(f'#!/bin/sh\nexec {shlex.join(SEARCH)} {target} "$@"\n')
    again.chmod(0o755)
    with (WORK / f"{target}.log").open("wb") as log:
        settings = {**os.environ, "SEARCH_AGAIN": str(again)}
        subprocess.run(command, cwd=HOME, env=settings, stdout=log, stderr=log, check=True)
    room = KEPT - sum(file.stat().st_size for file in own.iterdir())
    kept = 0
    for file in sorted(set(fewest.iterdir()), key=lambda file: (file.stat().st_size, file.name)):
        room -= 0 if file.name in written else file.stat().st_size
        if file.name not in written and room >= 0 and kept < MOST:
            shutil.copy(file, own / f"grown-{file.name.removeprefix('grown-')[:12]}")
            kept += 1
    shutil.rmtree(fewest)
    return kept


if __name__ == "__main__":
    sys.exit(main())
