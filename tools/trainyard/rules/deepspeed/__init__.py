"""Rules on DeepSpeed's configuration: DSP001 and up."""
