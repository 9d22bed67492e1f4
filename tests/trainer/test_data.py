"""Samples come once an epoch, in the same order at any world size, from a copy that is what the index says."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from tests.trainer.conftest import Trainer
from trainer import cache, data, index, made_up, sources, tokenise
from trainer.config import Config
from trainer.data import IGNORED, Share
from trainer.errors import ConfigError, DataError
from trainer.order import Order, positions_of
from trainer.presets import preset

pytestmark = pytest.mark.torch


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**32), epoch=st.integers(0, 50))
def test_every_epoch_has_every_sample_once(size: int, seed: int, epoch: int) -> None:
    positions = np.arange(epoch * size, (epoch + 1) * size, dtype=np.uint64)

    assert sorted(Order(size, seed).at(positions)) == list(range(size))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    first = Order(1000, 1).at(np.arange(2000, dtype=np.uint64))

    assert not np.array_equal(first[:1000], first[1000:])
    assert not np.array_equal(first[:1000], Order(1000, 2).at(np.arange(1000, dtype=np.uint64)))
    places = np.arange(1000, dtype=np.uint64)
    slopes = [np.corrcoef(Order(1000, seed).at(places), places)[0, 1] for seed in range(100)]
    assert np.std(slopes) == pytest.approx(1 / np.sqrt(1000), rel=0.25)  # as of orders drawn at random


@given(world=st.integers(1, 16), each=st.integers(1, 16), position=st.integers(0, 10**6))
def test_ranks_take_every_position_of_a_step_once(world: int, each: int, position: int) -> None:
    taken = np.concatenate([positions_of(rank, world, position, world * each) for rank in range(world)])

    assert sorted(taken) == list(range(position, position + world * each))


@given(st.lists(st.integers(2, 50), min_size=1, max_size=4), st.integers(1, 20))
def test_windows_hold_every_target_once(sizes: list[int], length: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder, token, files = Path(name), 0, []
        for number, size in enumerate(sizes):
            np.arange(token, token + size, dtype=np.uint16).tofile(folder / f"{number}.bin")
            files.append(index.File(f"{number}.bin", size * 2, ""))
            token += size
        dataset = data.Tokens(folder, index.Index("tokens", tuple(files), vocabulary=999), length)
        every = np.arange(len(dataset), dtype=np.uint64)
        batch = dataset.micro_batch(every, every)

    starts = np.cumsum([0, *sizes[:-1]])
    expected = [t for start, size in zip(starts, sizes, strict=True) for t in range(start + 1, start + size)]
    valid = batch.targets != IGNORED
    assert sorted(batch.targets[valid]) == expected
    assert np.array_equal(batch.inputs[valid] + 1, batch.targets[valid])
    assert batch.valid == len(expected)


def test_padding_is_no_target(text: Path) -> None:
    held = index.Index("tokens", index.read(str(text)).files, vocabulary=256, padding=ord("t"))
    every = np.arange(4, dtype=np.uint64)

    batch = data.Tokens(text, held, 32).micro_batch(every, every)

    assert ord("t") not in batch.targets
    assert ord("t") in batch.inputs
    assert batch.valid == int((batch.targets != IGNORED).sum()) < batch.targets.size


@pytest.mark.claim("trains-what-other-code-trains")
@pytest.mark.parametrize("kind", ["text", "images"])
def test_a_run_sees_the_same_samples_at_any_world_size_and_from_any_position(
    kind: str, text: Path, images: Path
) -> None:
    dataset = _dataset(kind, text, images)

    def seen(world: int, micro: int, start: int, workers: int) -> list[list[float]]:
        rows = []
        for rank in range(world):
            share = Share(rank, world, micro, 12 // world // micro)
            batches = data.steps(dataset, 3, share, start, 12 * 20, workers)
            rows.append(
                [float(batch.inputs[i].sum()) for step in batches for batch in step for i in range(len(batch.inputs))]
            )
        return [list(step) for step in zip(*(np.array(row).reshape(-1, 12 // world) for row in rows), strict=True)]

    whole = [sorted(np.concatenate(step)) for step in seen(1, 12, 0, 0)]
    for world, micro, workers in ((2, 3, 2), (4, 1, 0), (3, 2, 4)):
        assert [sorted(np.concatenate(step)) for step in seen(world, micro, 0, workers)] == whole
        assert [sorted(np.concatenate(step)) for step in seen(world, micro, 12 * 7, workers)] == whole[7:]


def _dataset(kind: str, text: Path, images: Path) -> data.Dataset:
    if kind == "text":
        return data.load(Config(dataset=str(text), sequence_length=32), preset("gpt-tiny"))
    return data.load(Config(dataset=str(images)), preset("vit-tiny"))


@pytest.mark.claim("dataset-cache")
def test_cache_is_filled_once_by_many_ranks(text: Path, tmp_path: Path) -> None:
    held = index.read(f"file://{text}")

    with ThreadPoolExecutor(8) as pool:
        folders = {*pool.map(lambda _: cache.local_folder(f"file://{text}", held, str(tmp_path / "cache")), range(8))}

    assert folders == {tmp_path / "cache" / held.digest}
    assert [path.name for path in sorted(folders.pop().iterdir())] == ["00000.bin", "index.json"]
    assert not list((tmp_path / "cache").glob(".*.part-*"))


@pytest.mark.claim("addresses-go-through-the-cache")
def test_dataset_behind_an_address_is_trained_from_the_cache(text: Path, tmp_path: Path, train: Trainer) -> None:
    """An archive stands for object storage: fsspec reads all of them alike, and none can be mapped into memory."""
    archive = shutil.make_archive(str(tmp_path / "text"), "zip", text)

    run = train("run=far", f"dataset=zip://::file://{archive}", f"data.cache={tmp_path / 'cache'}", ranks=2)

    assert run.code == 0, run.errors
    assert run.result["steps"] == 12


@pytest.mark.claim("addresses-go-through-the-cache")
def test_address_without_its_package_is_told(train: Trainer) -> None:
    run = train("run=far", "dataset=s3://bucket/text", "data.cache=/cache")

    assert run.code == 4
    assert run.errors == "error: rank 0: s3://bucket/text: Install s3fs to access S3\n"


def test_cache_refuses_what_the_index_does_not_say(text: Path, tmp_path: Path) -> None:
    copy = tmp_path / "dataset"
    copy.mkdir()
    for path in text.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    content = bytearray((copy / "00000.bin").read_bytes())
    content[5] ^= 1
    (copy / "00000.bin").write_bytes(content)

    with pytest.raises(DataError, match=r"00000.bin: its digest is not the one in index.json"):
        cache.local_folder(str(copy), index.read(str(copy)), str(tmp_path / "cache"))
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"files": [{"name": "../secret", "bytes": 1, "sha256": ""}]}, "lies outside the dataset"),
        ({"dtype": "float32"}, "dtype float32"),
        ({"files": None}, "damaged"),
        ({"files": [{"name": "00000.bin", "bytes": 7, "sha256": ""}]}, "but index.json says 7"),
    ],
)
def test_damaged_index_is_refused(text: Path, tmp_path: Path, change: dict[str, object], message: str) -> None:
    (tmp_path / "00000.bin").write_bytes((text / "00000.bin").read_bytes())
    (tmp_path / "index.json").write_text(json.dumps(json.loads((text / "index.json").read_text()) | change))

    with pytest.raises(DataError, match=message):
        data.load(Config(dataset=str(tmp_path), sequence_length=32), preset("gpt-tiny"))


@pytest.mark.claim("addresses-go-through-the-cache")
def test_address_without_a_cache_is_refused(text: Path) -> None:
    with pytest.raises(DataError, match=r"set data\.cache to a folder on the node's disk"):
        data.load(sources.read([f"dataset=file://{text}"], {}), preset("gpt-tiny"))


def test_text_becomes_the_tokens_of_a_tokenizer(tmp_path: Path) -> None:
    words = {word: number for number, word in enumerate(["<|endoftext|>", "[UNK]", "to", "be", "or", "not"])}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "text").mkdir()
    (tmp_path / "text/a.txt").write_text("to be or not to be")
    (tmp_path / "text/b.txt").write_text("be it")

    held = tokenise.make(tmp_path / "text", tmp_path / "out", str(tmp_path / "tokenizer.json"), shard_tokens=4)

    tokens = [np.fromfile(tmp_path / "out" / file.name, np.uint16).tolist() for file in held.files]
    assert tokens == [[2, 3, 4, 5], [2, 3, 0, 3], [1, 0]]
    assert index.read(str(tmp_path / "out")) == held
    with pytest.raises(ConfigError, match="not empty"):
        tokenise.make(tmp_path / "text", tmp_path / "out")


def test_made_up_datasets_are_the_same_bytes(tmp_path: Path) -> None:
    for make in (made_up.text, made_up.images):
        first, second = (make(tmp_path / f"{make.__name__}-{number}") for number in (1, 2))
        assert first.digest == second.digest
