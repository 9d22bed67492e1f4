"""Rules on what Prometheus is told to scrape: MON001 and up."""
