"""What stands at a place of an object."""

from trainyard.objects.objects import Spot
from trainyard.yaml.fieldpath import lookup


def value_at(spot: Spot) -> object:
    """The value of a field, None where it is absent."""
    try:
        return lookup(spot.object.data, spot.path)
    except KeyError:
        return None
