"""Generates schemas/ from the pinned modules of the projects that own the kinds."""
