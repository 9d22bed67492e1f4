"""bench-report: compares benchmark runs with a locked baseline, and says what is slower, how much and how surely."""
