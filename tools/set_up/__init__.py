"""The set-up behind tools/bootstrap.py, in the standard library alone.

It consists of parts, each a folder under .tools with a stamp: the bytes of the files that it was made from, one after
the other. A part whose stamp equals those files is left alone. Any other is made in a temporary folder beside it, which
takes its name at the end, under a lock: a set-up that is killed leaves temporary folders, which the next one removes,
and never half a part.
"""
