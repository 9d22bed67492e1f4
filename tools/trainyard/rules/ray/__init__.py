"""Rules on what KubeRay refuses or reads in another way than it looks: RAY001 and up."""
