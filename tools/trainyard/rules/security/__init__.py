"""Rules on secrets, images, tokens, and on what a job folder may hold: SEC001 and up."""
