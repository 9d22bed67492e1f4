"""tools/plan-job --fit: finds the constants in published runs, and their worth on a source that they never saw."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from trainyard.plan.constants import NAMES, Constants
from trainyard.plan.fit import fit, forecast, without
from trainyard.plan.hardware import FOLDER, read
from trainyard.plan.published import PublishedRun
from trainyard.plan.score import spread

FILE = FOLDER / "forecast.yaml"


def calibrate(
    items: Sequence[PublishedRun], say: Callable[[str], None]
) -> tuple[Constants, dict[str, dict[str, float | None]]]:
    """The best constants for all rows, and errors by source (and of all) with that source left out."""
    facts = read("forecast.yaml")["constants"]
    bounds = {name: (float(facts[name]["low"]), float(facts[name]["high"])) for name in NAMES}
    prior = Constants(**{name: float(facts[name]["prior"]) for name in NAMES})
    best = fit(items, prior, prior, bounds).constants
    say("all sources: fitted")
    held: dict[str, dict[str, float | None]] = {}
    everything: list[float] = []
    for source in sorted({item.source for item in items}):
        others = fit(without(items, source), prior, prior, bounds).constants
        mine = [item for item in items if item.source == source]
        errors = [abs(forecast(item, others) / item.measured - 1) for item in mine if item.measured]
        held[source] = {"rows": len(errors), **spread(errors)}
        everything += errors
        say(f"without {source}: median {held[source]['median']:.1%}")
    return best, {"all": {"rows": len(everything), **spread(everything)}, **held}


def write(constants: Constants, held: dict[str, dict[str, float | None]], file: Path = FILE) -> None:
    """Put values into forecast.yaml, and leave its words alone."""
    text = file.read_text(encoding="utf-8")
    for name in NAMES:
        value = f"{getattr(constants, name):.4g}"
        text = re.sub(rf"(\n  {name}:\n    {{value: )[^,]+", rf"\g<1>{value}", text)
    rows = [
        f"  {source}: {{rows: {facts['rows']}, median: {facts['median']:.4f}, p90: {facts['p90']:.4f}, "
        f"worst: {facts['worst']:.4f}}}"
        for source, facts in held.items()
    ]
    head = text[: text.index("held_out:")]
    file.write_text(head + "held_out:\n" + "\n".join(rows) + "\n", encoding="utf-8")
