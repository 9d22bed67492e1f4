"""Rules on the settings of NCCL, Gloo and the network plugins: NCL001 and up."""

from trainyard.rules.nccl import names, roles, transport, tuning, values

__all__ = ["names", "roles", "transport", "tuning", "values"]
