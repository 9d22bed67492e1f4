"""A repository to fix: that of the planted mistakes."""

from tests.planted.conftest import checkout, untouched

__all__ = ["checkout", "untouched"]
