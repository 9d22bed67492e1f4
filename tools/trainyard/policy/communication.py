"""Values of variables that a library reads otherwise than they were meant, in pods and in ConfigMaps."""

from collections.abc import Callable

from trainyard.catalogues.variables import Variable, names, variable
from trainyard.policy.kinds import CONFIG_MAP, POD_TEMPLATES, TRAIN_JOB
from trainyard.policy.model import Policy

_KINDS = (CONFIG_MAP, *POD_TEMPLATES, TRAIN_JOB)
_EVERY = "variables.settings.all(p, p.all(c, c.all(e, {})))"


def _names(wanted: Callable[[Variable], bool]) -> str:
    """A CEL list of the variables in use for which `wanted` is true."""
    facts = (variable(name) for name in sorted(names()))
    used = (each for each in facts if each is not None and each.status in ("", "deprecated") and not each.secret)
    return "[" + ",\n".join(f"'{each.name}'" for each in used if wanted(each)) + "]"


POLICIES = (
    Policy(
        "ENV001",
        _KINDS,
        _EVERY.format(
            """!e.value.matches('^[A-Za-z]+$')
  || !(e.name in variables.strictIntegers
    || (e.name in variables.integers
      && !(e.value.lowerAscii() in ['false', 'no', 'off', 'n', 'f', 'disable', 'disabled'])))"""
        ),
        {
            "integers": _names(lambda each: each.parse == "nccl-int" and not each.unsure),
            "strictIntegers": _names(lambda each: each.is_integer and each.parse != "nccl-int" and not each.unsure),
        },
    ),
    Policy(
        "ENV003",
        _KINDS,
        _EVERY.format(
            """!(e.name in variables.integers)
  || !(e.value.matches('^[0-9]+[.]?[0-9]*[eE][+]?[0-9]$') || e.value.matches('^(?i)[0-9]+ *([KMGT]i?B?|i?B|i)$'))"""
        ),
        {"integers": _names(lambda each: each.parse in ("nccl-int", "torch-int"))},
    ),
    Policy(
        "ENV009",
        _KINDS,
        _EVERY.format(
            """!(e.name in ['GLOO_SOCKET_IFNAME', 'TP_SOCKET_IFNAME']) || e.value == ''
  || e.value.split(',').all(n, n.matches('^[A-Za-z0-9][A-Za-z0-9._@-]{0,14}(:[0-9]+)?$'))"""
        ),
    ),
)
