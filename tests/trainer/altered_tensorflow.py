"""python -m tests.trainer.altered_tensorflow [weights=FILE] [replicas=N] -- KEY=VALUE ...

The trainer for TensorFlow with first weights of a file, and with several processors in the place of a node's GPUs. It
says at its end how much memory it had.
"""

import resource
import sys

import numpy as np
import tensorflow as tf

from trainer import tensorflow, tensorflow_decoder


def main() -> int:
    end = sys.argv.index("--")
    asked = dict(word.split("=", 1) for word in sys.argv[1:end])
    if "weights" in asked:
        first = np.load(asked["weights"])
        tensorflow_decoder._first_value = lambda _shape, name, _size, _seed: tf.constant(first[name])  # type: ignore[assignment]
    if "replicas" in asked:
        devices = [tf.config.LogicalDeviceConfiguration()] * int(asked["replicas"])
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
        names = [f"CPU:{number}" for number in range(len(devices))]
        tf.distribute.MultiWorkerMirroredStrategy = lambda: tf.distribute.MirroredStrategy(names)
    code = tensorflow.main(sys.argv[end + 1 :])
    sys.stderr.write(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
