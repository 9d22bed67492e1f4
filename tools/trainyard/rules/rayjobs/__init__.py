"""Rules on what KubeRay refuses or reads in another way than it looks: RAY001 and up."""

from trainyard.rules.rayjobs import autoscaler as autoscaler
from trainyard.rules.rayjobs import groups as groups
from trainyard.rules.rayjobs import images as images
from trainyard.rules.rayjobs import lifetime as lifetime
