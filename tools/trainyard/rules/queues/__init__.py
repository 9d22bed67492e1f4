"""Rules on Kueue: QUE001 and up."""

from trainyard.rules.queues import elastic as elastic
from trainyard.rules.queues import labels as labels
from trainyard.rules.queues import missing as missing
from trainyard.rules.queues import quota as quota
from trainyard.rules.queues import rayjobs as rayjobs
from trainyard.rules.queues import topology as topology
