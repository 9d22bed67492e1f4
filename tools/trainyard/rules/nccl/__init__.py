"""Rules on the settings of NCCL, Gloo, the network plugins and the launchers: ENV001 and up."""
