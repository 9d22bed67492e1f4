"""The rules: what each finds, its page and its fix.

A rule is found from its id. The three letters are its family, and `FAMILIES` names the module or the folder that holds
every rule of it: NET004 is in `network/`, IMG001 in `images.py`. Whatever module lies there is read, so that a new one
needs no line elsewhere. What several families share is in `common/`, which holds no rule. Beside that, BAT reads
DeepSpeed's configurations with modules of `deepspeed/` that hold none either.

A stage of the pipeline may raise findings itself, such as those on suppressions. It declares their pages where it
raises them: `index.STAGES` names the module.
"""

FAMILIES = {
    "ACC": "access",
    "API": "server",
    "BAT": "batch",
    "CKP": "checkpoints",
    "CTR": "contract",
    "DSP": "deepspeed",
    "ENV": "environment",
    "GIT": "gitops",
    "GNG": "gang",
    "GPU": "gpus",
    "IMG": "images",
    "JBS": "jobsets",
    "JOB": "jobs",
    "LCH": "launchers",
    "LOG": "logs",
    "MEM": "memory",
    "MET": "metrics",
    "MOD": "models",
    "MON": "monitoring",
    "MPI": "mpi",
    "NAM": "names",
    "NCL": "nccl",
    "NET": "network",
    "OPR": "operators",
    "PLC": "placement",
    "PRB": "probes",
    "PSA": "pod_security",
    "QUE": "queues",
    "RAY": "ray",
    "RBA": "rbac",
    "RDV": "rendezvous",
    "REF": "references",
    "RES": "resources",
    "RST": "restarts",
    "SCH": "schemas",
    "SEC": "security",
    "SIC": "sidecars",
    "SNW": "second_networks",
    "STO": "storage",
    "TRJ": "trainjobs",
    "VOL": "volcano",
}
"""The first letters of an id to the module or the folder of this package that holds its rule."""
