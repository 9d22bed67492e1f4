"""What lint-jobs imports when it needs it, imported once for all the processes that are forked from this one."""

from importlib import import_module

from trainyard.rules.index import all_rules

for _late in ("cluster", "contract", "edited", "manifests", "policy.allowed", "rendered", "schema", "unjudged"):
    import_module(f"trainyard.{_late}")
all_rules()
