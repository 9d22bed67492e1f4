"""The training program that the jobs run. Its modules, in the order in which data flows:

__main__                 the command line
config, sources, manual  what to train: keys; the file, environment and command line that set them; --help
errors                   what a user can mend, and the exit code of each
launch, process, group   which rank this process is, what it sets for itself, who the others are, how they talk
index, order, cache,
data                     samples on disk, which one comes when, their copy on the node, a rank's share of each step
schedule                 batch and learning rate by samples
presets, transformer,
loss, vision, model      shapes and modules, built without memory and filled rank by rank
optimizer, parallel,
zero                     one engine out of ddp, fsdp or deepspeed
storage, checkpoint,
checkpoint_pieces,
cadence                  a run on storage, written so that a crash costs little
sigterm, control, loop   the steps, what ranks tell each other in them, and how they end early
exposed_communication,
straggler, metrics,
report                   what can be seen of it

ray, tensorflow,
tensorflow_decoder       the same keys under other masters
made_up, tokenise, bench datasets, and what training rests on, measured
"""
