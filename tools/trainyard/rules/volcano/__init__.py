"""Rules on what Volcano refuses, and on what it does when pods end: VOL001 and up."""
