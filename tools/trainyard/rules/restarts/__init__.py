"""Rules on failures and on further tries: RST001 and up."""
