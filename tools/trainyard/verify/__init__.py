"""What a real API server says of rendered jobs."""
