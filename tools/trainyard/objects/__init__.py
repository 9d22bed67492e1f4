"""Kubernetes objects, units of them, and changes of them as data."""
