"""Rules on the settings of NCCL, Gloo, the network plugins and the launchers: NCL001 and up."""
