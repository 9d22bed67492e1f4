"""Rules on Kueue: QUE001 and up."""
