"""Rules on what pods can reach: NET001 and up."""
