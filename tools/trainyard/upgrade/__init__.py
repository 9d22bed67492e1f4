"""`trainyard upgrade`: base/ and overlays/ as a folder in a repository that is no fork, at the installed version."""
