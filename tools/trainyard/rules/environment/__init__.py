"""Rules on environment variables of libraries and launchers, NCCL's own aside: ENV001 and up."""
