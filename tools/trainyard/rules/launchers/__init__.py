"""Rules on launchers, and on the commands that containers run: LCH001 and up."""
