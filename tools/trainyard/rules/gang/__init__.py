"""Rules on gang scheduling: GNG001 and up."""
