"""What the controllers will really run: pod sets, containers and launches, whatever the kind of the job."""
