"""A cluster's folder, and what Argo CD and Flux make of it."""
