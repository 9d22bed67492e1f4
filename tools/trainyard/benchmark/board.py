"""TensorBoard's scalars of a run."""

from pathlib import Path
from typing import Any


def scalars(folder: Path) -> list[dict[str, Any]]:
    """A line a step, with every scalar that was written for it; none where there are no event files."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    if not any(folder.rglob("events.out.tfevents.*")):
        return []
    lines: dict[int, dict[str, Any]] = {}
    for place in sorted({file.parent for file in folder.rglob("events.out.tfevents.*")}):
        accumulated = EventAccumulator(str(place), size_guidance={"scalars": 0})
        accumulated.Reload()
        for name in accumulated.Tags()["scalars"]:
            for event in accumulated.Scalars(name):
                lines.setdefault(event.step, {"step": event.step})[name] = event.value
    return [lines[step] for step in sorted(lines)]
