"""What lint-jobs imports when it needs it, imported once for all the processes that are forked from this one."""

from importlib import import_module

from trainyard.rules.index import all_rules

for _late in (
    "gitops.cluster",
    "gitops.edited",
    "kustomize.contract",
    "kustomize.rendered",
    "lint.unjudged",
    "objects.manifests",
    "policy.job_folder",
    "schemas.schema",
):
    import_module(f"trainyard.{_late}")
all_rules()
