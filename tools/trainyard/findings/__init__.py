"""What the linter says: findings, how they are merged, kept and suppressed."""
