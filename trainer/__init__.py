"""The training program that the jobs run. Its modules, in the order in which data flows:

config, sources          what to train: keys, and the file, environment and command line that set them
launch                   which rank this process is, and who the others are
index, cache, data       samples on disk, their copy on the node, and which rank reads which of them
presets, transformer,
vision, model            shapes and modules, built without memory and filled rank by rank
precision, parallel,
zero                     one engine out of ddp, fsdp or deepspeed
schedule, optimizer      learning rate by samples
state, checkpoint,
storage, cadence         what a run is, written so that a crash costs little
stop, loop               the steps, and how they end early
metrics, exposed, report what can be seen of it
"""
