"""Trainyard's toolkit: proves every training job of a GitOps repository before it is synced.

A job goes through the packages in one direction:

    repository -> kustomize -> objects -> schemas -> workload -> rules -> lint -> report

repository finds the folders; kustomize renders one and says where each value was written; objects holds what came
of it; schemas judges each object; workload reads pods, launchers and ranks out of them; rules judges those; lint runs
the stages and keeps results; report prints. gitops looks at a cluster's folder; docs writes pages of docs/.
"""

__version__ = "0.1.0"
