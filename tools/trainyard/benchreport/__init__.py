"""bench-report: compares benchmark runs with a locked baseline, and says what is slower, by how much, and how surely."""
