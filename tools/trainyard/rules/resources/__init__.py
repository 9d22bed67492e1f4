"""Rules on CPU, memory and storage that pods ask for, and on quotas: RES001 and up."""
