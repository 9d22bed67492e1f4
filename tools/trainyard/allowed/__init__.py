"""What a job folder may hold: schemas/job-folder.yaml, walked by the linter and written in CEL for the API server."""
