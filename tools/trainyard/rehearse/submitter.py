"""The command by which KubeRay submits a RayJob whose submitter has none of its own (read from v1.6.2)."""

import json
import shlex

import yaml

from trainyard.objects.objects import Object
from trainyard.workload.plain import mapping, text

_AT = "--address http://$RAY_DASHBOARD_ADDRESS"
_ID = "$RAY_JOB_SUBMISSION_ID"


def submits(job: Object) -> tuple[str, ...]:
    """The words of the command: it submits the entrypoint unless that is done, and follows its log.

    KubeRay asks the dashboard how the job ended; here the submitter does, and ends with it.
    """
    spec = mapping(job.data.get("spec"))
    options = [_AT, "--no-wait"]
    if runtime := text(spec.get("runtimeEnvYAML")):
        options.append(f"--runtime-env-json {shlex.quote(json.dumps(yaml.safe_load(runtime)))}")
    options.append(f"--submission-id {_ID}")
    if isinstance(cpus := spec.get("entrypointNumCpus"), int | float) and cpus > 0:
        options.append(f"--entrypoint-num-cpus {cpus:f}")
    script = (
        f"if ! ray job status {_AT} {_ID} >/dev/null 2>&1 ; "
        f"then ray job submit {' '.join(options)} -- {text(spec.get('entrypoint')).strip()} ; fi ; "
        f"ray job logs {_AT} --follow {_ID} ; ray job status {_AT} {_ID} | grep -q succeeded"
    )
    return "/bin/bash", "-ce", "--", script
