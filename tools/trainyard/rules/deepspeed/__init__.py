"""Rules on DeepSpeed's configuration: DSP001 and up."""

from trainyard.rules.deepspeed import (
    auto,
    hugging_face,
    keys,
    offload,
    optimizer,
    policy,
    reading,
    releases,
    sizes,
    together,
)

__all__ = ["auto", "hugging_face", "keys", "offload", "optimizer", "policy", "reading", "releases", "sizes", "together"]
