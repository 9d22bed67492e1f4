"""How the ranks of a job find each other, and how many they count on: RDV001 and up."""
