"""Trainyard's toolkit: proves every training job of a GitOps repository before it is synced.

Data flows one way, and each arrow is one module:

    discover -> jobfile -> render + replay -> schema -> workload -> rules -> report
"""

__version__ = "0.1.0"
