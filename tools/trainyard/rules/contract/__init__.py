"""What a job folder, its base and its cluster promise one another: CTR001 and up."""
