"""How the ranks of a job find each other, and how many they count on: RDV001 and up."""

from trainyard.rules.rendezvous import endpoints, hosts, lists, nodes, ranks, worlds

__all__ = ["endpoints", "hosts", "lists", "nodes", "ranks", "worlds"]
