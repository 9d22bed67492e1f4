"""Rules on what the operators of jobs refuse or get wrong: OPR (Kubeflow's operators), JBS (JobSet), TRJ (Trainer), VOL
(Volcano), RST (restarts) and LOG (what is left of a run)."""
