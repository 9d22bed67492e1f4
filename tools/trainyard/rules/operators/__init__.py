"""Rules on what the operators of jobs refuse or get wrong: OPR (Kubeflow's operators), JBS (JobSet), TRJ (Trainer), VOL
(Volcano), RST (restarts) and LOG (what is left of a run)."""

from trainyard.rules.operators import failures as failures
from trainyard.rules.operators import jobsets as jobsets
from trainyard.rules.operators import launcher_account as launcher_account
from trainyard.rules.operators import leftovers as leftovers
from trainyard.rules.operators import replicas as replicas
from trainyard.rules.operators import retries as retries
from trainyard.rules.operators import runtimes as runtimes
from trainyard.rules.operators import volcano as volcano
from trainyard.rules.operators import volcano_policies as volcano_policies
from trainyard.rules.operators import words as words
