"""The hashes in which kustomize ends the names of what its generators make."""

import re

REMEDY = "write options: {disableNameSuffixHash: true} under its generator, or a nameReference for this field"
"""What lets an object of a generator be found by the name that is written."""
_HASH = re.compile(r"-[a-z0-9]{10}\Z")


def is_hashed_form(made: str, written: str) -> bool:
    """Whether one name is the other with a hash, or both are the same name with hashes that differ."""
    made_hash, written_hash = hash_of(made), hash_of(written)
    if not made_hash:
        return False
    stem = made.removesuffix(made_hash)
    return stem == written or (bool(written_hash) and stem == written.removesuffix(written_hash))


def hash_of(name: str) -> str:
    """The hash that a name ends in, with its hyphen, or nothing."""
    match = _HASH.search(name)
    return match[0] if match and any(mark.isdigit() for mark in match[0]) else ""
