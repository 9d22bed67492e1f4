"""Rules on names of objects that pods use: REF001 and up."""
