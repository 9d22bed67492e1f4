"""What a pod may ask for: images, shared memory, probes."""

from trainyard.policy.kinds import NOT_RAY, POD_TEMPLATES
from trainyard.policy.model import Policy

_GPUS = """\
c.?resources.?limits.orValue({}).filter(n, (n.endsWith('/gpu') || n.startsWith('nvidia.com/mig-'))
  && string(c.resources.limits[n]).matches('^[0-9]+$')).map(n, int(string(c.resources.limits[n]))).sum()"""

POLICIES = (
    Policy(
        "SEC002",
        POD_TEMPLATES,
        """\
variables.everyContainer.all(p, p.all(c, c.?image.orValue('') == '' || c.image.matches('@sha256:[0-9a-f]{64}$')
  || ['$(', '${', '{{', '<'].exists(mark, c.image.contains(mark))))""",
    ),
    Policy(
        "MEM001",
        NOT_RAY,
        f"""\
variables.pods.all(p, p.?hostIPC.orValue(false) || p.?containers.orValue([]).all(c,
  {_GPUS.replace(chr(10), chr(10) + "  ")} < 2
  || c.?volumeMounts.orValue([]).exists(m, m.mountPath.matches('^/dev/shm/*$')
    && p.?volumes.orValue([]).exists(v, v.name == m.name && (!has(v.emptyDir)
      || (v.emptyDir.?medium.orValue('') == 'Memory'
        && (!has(v.emptyDir.sizeLimit)
          || quantity(string(v.emptyDir.sizeLimit)).isGreaterThan(quantity('64Mi')))))))))""",
    ),
    Policy(
        "PRB001",
        NOT_RAY,
        f"""\
variables.containers.all(p, p.all(c, !has(c.livenessProbe)
  || {_GPUS.replace(chr(10), chr(10) + "  ")} == 0
  || c.livenessProbe.?periodSeconds.orValue(10) * c.livenessProbe.?failureThreshold.orValue(3) >= 300))""",
    ),
)
