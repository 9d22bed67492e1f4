"""lint-jobs: from targets to findings."""
