"""Rules on GPUs and other devices that pods request: GPU001 and up."""
