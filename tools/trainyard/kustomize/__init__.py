"""What kustomize makes of a folder, and where each value of it was written."""
