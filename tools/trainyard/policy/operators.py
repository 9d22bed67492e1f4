"""What the training operator and Kueue make of a job's fields."""

from trainyard.policy.kinds import NOT_RAY, PYTORCH_JOB, RAY_CLUSTER, RAY_JOB, TF_JOB
from trainyard.policy.model import Policy

_TRAINING_OPERATOR = (PYTORCH_JOB, TF_JOB)

POLICIES = (
    Policy("LOG001", _TRAINING_OPERATOR, "variables.spec.?runPolicy.?cleanPodPolicy.orValue('') != 'All'"),
    Policy(
        "RST003",
        _TRAINING_OPERATOR,
        """\
!has(variables.spec.?runPolicy.orValue({}).backoffLimit) || has(variables.spec.runPolicy.activeDeadlineSeconds)
|| !variables.replicas.exists(r, variables.replicas[r].?restartPolicy.orValue('') == 'ExitCode')""",
        {"replicas": "variables.spec.?pytorchReplicaSpecs.orValue(variables.spec.?tfReplicaSpecs.orValue({}))"},
    ),
    Policy(
        "QUE007",
        (*NOT_RAY, RAY_CLUSTER, RAY_JOB),
        """\
variables.annotations.all(a, ['required', 'preferred', 'unconstrained']
  .filter(how, ('kueue.x-k8s.io/podset-' + how + '-topology') in a).size() < 2)""",
    ),
    Policy(
        "QUE015",
        (RAY_CLUSTER, RAY_JOB),
        """\
!('kueue.x-k8s.io/queue-name' in object.metadata.?labels.orValue({}))
|| ((object.kind == 'RayCluster' || variables.spec.?shutdownAfterJobFinishes.orValue(false)
    || variables.spec.?clusterSelector.orValue({}).size() > 0)
  && (!variables.cluster.?enableInTreeAutoscaling.orValue(false)
    || object.metadata.?annotations.orValue({})[?'kueue.x-k8s.io/elastic-job'].orValue('') == 'true'))""",
        {"cluster": "object.kind == 'RayCluster' ? variables.spec : variables.spec.?rayClusterSpec.orValue({})"},
    ),
)
