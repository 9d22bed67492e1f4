"""python -m trainer.tokenise TEXT_FOLDER OUT [--tokenizer tokenizer.json] [--shard-tokens N]

Makes a dataset of tokens from a folder of .txt files, in the order of their names, a document a file. Without a
tokenizer (a tokenizer.json of the tokenizers library) every byte is a token. Documents end with the end token.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from trainer import index
from trainer.errors import ConfigError, TrainerError

END_TOKENS = ("<|endoftext|>", "<|end_of_text|>", "</s>")
Encode = Callable[[str], Sequence[int]]


def make(folder: Path, out: Path, tokenizer: str = "", shard_tokens: int = 1 << 28) -> index.Index:
    """Writes shards of at most `shard_tokens` tokens and their index to the empty folder `out`."""
    documents = sorted(folder.rglob("*.txt"))
    if not documents:
        raise ConfigError(f"{folder}: no .txt file in it")
    encode, end, vocabulary = _encoder(tokenizer)
    dtype = "uint16" if vocabulary <= 1 << 16 else "uint32"
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise ConfigError(f"{out}: not empty")
    stream = chain.from_iterable(chain(encode(path.read_text()), [end]) for path in documents)
    files = []
    for number, shard in enumerate(_shards(stream, shard_tokens, dtype)):
        path = out / f"{number:05}.bin"
        shard.tofile(path)
        files.append(index.File(path.name, path.stat().st_size, index.digest_of(path)))
    held = index.Index("tokens", tuple(files), dtype, vocabulary)
    index.write(out, held)
    return held


def _encoder(tokenizer: str) -> tuple[Encode, int, int]:
    """What turns text into tokens, the end token, and the size of the vocabulary."""
    if not tokenizer:
        return (lambda text: text.encode()), 0, 256
    known = Tokenizer.from_file(tokenizer)
    ends = [token for name in END_TOKENS if (token := known.token_to_id(name)) is not None]
    if not ends:
        raise ConfigError(f"{tokenizer}: none of the end tokens {', '.join(END_TOKENS)} is in its vocabulary")
    return (lambda text: known.encode(text, add_special_tokens=False).ids), ends[0], known.get_vocab_size()


def _shards(stream: Iterator[int], tokens: int, dtype: str) -> Iterator[np.ndarray[tuple[int], np.dtype[np.uint32]]]:
    while len(shard := np.fromiter(islice(stream, tokens), dtype=dtype)):
        yield shard


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m trainer.tokenise", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", default="", help="tokenizer.json; without it a byte is a token")
    parser.add_argument("--shard-tokens", type=int, default=1 << 28, help="tokens in a file (default %(default)s)")
    given = parser.parse_args()
    try:
        held = make(given.folder, given.out, given.tokenizer, given.shard_tokens)
    except TrainerError as error:
        parser.exit(error.code, f"error: {error}\n")
    width = np.dtype(held.dtype).itemsize
    print(f"{sum(file.size for file in held.files) // width} tokens in {len(held.files)} files: {given.out}")


if __name__ == "__main__":
    main()
