"""What a repository holds and what Git knows of it."""
