"""What rules of several families share. Nothing here is a rule."""
