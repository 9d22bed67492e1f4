"""The rules: what each finds, its page and its fix."""
