"""Objects against the schemas of their kinds."""
