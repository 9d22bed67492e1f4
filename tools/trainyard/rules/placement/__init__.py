"""Rules on where the scheduler may put pods: PLC001 and up."""
