"""From what a rule proposes to edits of source files, and to the files themselves.

A rule names fields of rendered objects and never sees text. Here each field is followed to the file that holds it, and
the smallest stretch of that file is replaced. What cannot be done without touching anything else is refused, with the
reason.
"""
