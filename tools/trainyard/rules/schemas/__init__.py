"""Rules on what no schema or rule can judge: SCH004 and up."""
