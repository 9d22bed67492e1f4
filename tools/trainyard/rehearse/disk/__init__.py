"""Claims that are slow on request: pods wait for their writes as they would on a disk of that speed."""
