"""Facts about programs that jobs run: variables, keys and arguments."""
