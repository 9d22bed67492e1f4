"""python -m trainer.made_up text|images OUT [--seed N]

Small datasets that need no download, the same bytes for the same seed: sentences of a made-up grammar as tokens of one
byte, or pictures of four patterns under noise, a folder a class.
"""

import argparse
import random
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from trainer import index, tokenise

ADJECTIVES = ("small", "quiet", "red", "late", "patient", "narrow", "old", "bright")
NOUNS = ("pump", "river", "clerk", "engine", "lamp", "garden", "signal", "bridge", "train", "letter")
VERBS = ("finds", "follows", "repairs", "counts", "passes", "draws", "answers", "lifts")
PLACES = ("by the gate", "before noon", "in the yard", "without a word", "at the station", "under the roof")
CLASSES = ("bars", "checks", "discs", "lines")


def text(out: Path, seed: int = 1, documents: int = 64, sentences: int = 60) -> index.Index:
    """A dataset of tokens: `documents` documents of `sentences` sentences."""
    source = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(documents):
            lines = [_sentence(source) for _ in range(sentences)]
            (Path(folder) / f"{number:05}.txt").write_text("\n".join(lines) + "\n")
        return tokenise.make(Path(folder), out, shard_tokens=100_000)


def _sentence(source: random.Random) -> str:
    subject, verb = source.choice(NOUNS), source.choice(VERBS)
    return f"the {source.choice(ADJECTIVES)} {subject} {verb} the {source.choice(NOUNS)} {source.choice(PLACES)}."


def images(out: Path, seed: int = 1, count: int = 256, size: int = 40) -> index.Index:
    """A dataset of `count` images of `size` pixels, in four classes."""
    source = np.random.default_rng(seed)
    rows, columns = np.mgrid[:size, :size]
    for number in range(count):
        kind, period = CLASSES[number % len(CLASSES)], source.integers(4, 9)
        centre = source.integers(size // 4, 3 * size // 4, 2)
        match kind:
            case "bars":
                shape = (columns // period) % 2
            case "lines":
                shape = (rows // period) % 2
            case "checks":
                shape = (rows // period + columns // period) % 2
            case _:
                shape = (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 < (size // 4) ** 2
        colours = source.integers(0, 256, (2, 3))
        noisy = colours[shape.astype(int)] + source.normal(0, 20, (size, size, 3))
        (out / kind).mkdir(parents=True, exist_ok=True)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(out / kind / f"{number:05}.png")
    held = index.of_images(out)
    index.write(out, held)
    return held


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m trainer.made_up", description=__doc__)
    parser.add_argument("kind", choices=("text", "images"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    held = (text if given.kind == "text" else images)(given.out, given.seed)
    print(f"{len(held.files)} files: {given.out}")


if __name__ == "__main__":
    main()
