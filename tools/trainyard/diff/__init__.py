"""What a pull request really changes: the objects, settings, GPUs, forecasts and findings of jobs, before and after."""
