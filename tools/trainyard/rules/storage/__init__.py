"""Rules on claims, volumes and what is written there: STO001 and up."""
