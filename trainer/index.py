"""A dataset is a folder with index.json: what it holds, and size and digest of every file.

{"kind": "tokens", "dtype": "uint16", "vocabulary": 256, "padding": null,
 "files": [{"name": "00000.bin", "bytes": 2000000, "sha256": "..."}]}
{"kind": "images", "classes": ["cat", "dog"],
 "files": [{"name": "cat/1.png", "class": 0, "bytes": 1200, "sha256": "..."}]}
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import fsspec

from trainer.errors import DataError

NAME = "index.json"
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
DTYPES = ("uint16", "uint32")


@dataclass(frozen=True, slots=True)
class File:
    """A file of a dataset; `label` is the class of an image."""

    name: str
    size: int
    sha256: str
    label: int = -1


@dataclass(frozen=True, slots=True)
class Index:
    """What a dataset holds."""

    kind: Literal["tokens", "images"]
    files: tuple[File, ...]
    dtype: str = "uint16"
    vocabulary: int = 0
    padding: int | None = None
    """Token that is not a target: no loss is taken of it."""
    classes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Stands for the content of all files."""
        return hashlib.sha256(json.dumps(to_json(self), sort_keys=True).encode()).hexdigest()


def read(address: str) -> Index:
    """The index of the dataset at a folder or fsspec address; a local folder of class folders needs no index.

    Raises DataError where there is no dataset, or its index is damaged.
    """
    try:
        filesystem, folder = fsspec.core.url_to_fs(address)
        text = filesystem.cat_file(f"{folder.rstrip('/')}/{NAME}")
    except FileNotFoundError:
        if "://" not in address and Path(address).is_dir():
            return of_images(Path(address), digests=False)
        raise DataError(
            f"{address}: no {NAME} there; `python -m trainer.tokenise` makes one from a folder of text"
        ) from None
    except (OSError, ValueError, ImportError) as error:
        raise DataError(f"{address}: {error}") from error
    try:
        return from_json(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{address}/{NAME}: damaged: {error!r}") from error


def of_images(folder: Path, digests: bool = True) -> Index:
    """The index of a folder that has a folder of images for each class."""
    classes = tuple(sorted(path.name for path in folder.iterdir() if path.is_dir()))
    files = [
        File(f"{name}/{path.name}", path.stat().st_size, digest_of(path) if digests else "", label)
        for label, name in enumerate(classes)
        for path in sorted((folder / name).iterdir())
        if path.suffix.lower() in IMAGES
    ]
    if not files:
        raise DataError(f"{folder}: neither {NAME} nor class folders with images")
    return Index("images", tuple(files), classes=classes)


def write(folder: Path, index: Index) -> None:
    """Writes the index of a folder whose files are there already."""
    (folder / NAME).write_text(json.dumps(to_json(index), indent=1) + "\n")


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def to_json(index: Index) -> dict[str, Any]:
    files = [{"name": file.name, "bytes": file.size, "sha256": file.sha256} for file in index.files]
    if index.kind == "tokens":
        head = {"kind": "tokens", "dtype": index.dtype, "vocabulary": index.vocabulary, "padding": index.padding}
        return head | {"files": files}
    labelled = [file | {"class": known.label} for file, known in zip(files, index.files, strict=True)]
    return {"kind": "images", "classes": list(index.classes), "files": labelled}


def from_json(content: dict[str, Any]) -> Index:
    files = tuple(File(_inside(f["name"]), int(f["bytes"]), f["sha256"], f.get("class", -1)) for f in content["files"])
    if content["kind"] == "images":
        return Index("images", files, classes=tuple(content["classes"]))
    if content["kind"] != "tokens" or content["dtype"] not in DTYPES:
        raise ValueError(f"kind {content['kind']} with dtype {content.get('dtype')}")
    return Index("tokens", files, content["dtype"], int(content["vocabulary"]), content.get("padding"))


def _inside(name: str) -> str:
    if name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"file {name} lies outside the dataset")
    return name
