"""YAML with the place of each value, and the files it stands in."""
