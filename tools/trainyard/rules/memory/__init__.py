"""Rules on memory, shared and of GPUs: MEM001 and up."""
