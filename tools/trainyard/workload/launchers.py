"""What each launcher's command line looks like: its options, what each takes, and what holds when none is given.

Names are canonical: no leading hyphens, underscores for hyphens. Only options that change how the rest is read, or that
a rule needs, must be listed; an option that is not is read by its looks.

Sources: torch.distributed.run, deepspeed.launcher.runner, accelerate.commands.launch, mpirun(1) of Open MPI and of
Intel MPI, horovod.runner.launch, composer.cli.launcher, lightning.fabric.cli.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from trainyard.workload.model import Setting

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Grammar:
    """How one launcher reads its command line."""

    launcher: str
    values: frozenset[str]
    """Options that take one value."""
    flags: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()
    """Options that take a key and a value, any number of times; read as one map from key to Setting."""
    variables: frozenset[str] = frozenset()
    """Options that take NAME or NAME=value, any number of times; read as one map from name to Setting."""
    aliases: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """Other spellings, with their hyphens, to canonical names."""
    defaults: Mapping[str, Any] = field(default_factory=lambda: _NONE)
    environment: str = ""
    """Prefix of the variables that stand in for options; empty where the launcher reads none."""
    handed_on: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """Variables that what it starts reads in its place, by the name under which they count as options."""
    settle: Callable[[dict[str, Setting]], None] | None = None
    """Options that follow from others."""
    abbreviates: bool = False
    """Whether it takes the beginning of an option for the option, as argparse does; all of its options are listed."""

    def meant(self, option: str) -> tuple[str, ...]:
        """Options that one is short for, as it is written with its two hyphens; itself where it is one."""
        name = canonical(option)
        known = self.values | self.flags
        if name in known or not self.abbreviates or not option.startswith("--"):
            return (name,)
        return tuple(sorted(each for each in known if _begins(option, each))) or (name,)


def canonical(option: str) -> str:
    """`--rdzv-endpoint` to `rdzv_endpoint`."""
    return option.lstrip("-").replace("-", "_")


def _begins(written: str, option: str) -> bool:
    """Whether an option, with hyphens or with underscores between its words, begins as it is written."""
    return f"--{option}".startswith(written) or f"--{option.replace('_', '-')}".startswith(written)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _settle_torchrun(options: dict[str, Setting]) -> None:
    standalone = options.get("standalone")
    if standalone is not None and standalone.value is not False:
        for name, value in (("rdzv_backend", "c10d"), ("rdzv_endpoint", "localhost:0")):
            options[name] = Setting(value if standalone.value else None, standalone.spot, implied=True)
        return
    backend, endpoint = options.get("rdzv_backend"), options.get("rdzv_endpoint")
    if backend is None or backend.value != "static" or (endpoint is not None and endpoint.value != ""):
        return
    address, port = options.get("master_addr"), options.get("master_port")
    if address is None or port is None:
        return
    both = None if address.value is None or port.value is None else f"{address.value}:{port.value}"
    options["rdzv_endpoint"] = Setting(both, address.spot, implied=address.implied)


TORCHRUN = Grammar(
    launcher="torchrun",
    values=_names(
        "nnodes nproc_per_node rdzv_backend rdzv_endpoint rdzv_id rdzv_conf max_restarts monitor_interval start_method"
        " event_log_handler role log_dir redirects tee local_ranks_filter node_rank master_addr master_port local_addr"
        " logs_specs numa_binding signals_to_handle shutdown_timeout duplicate_stdout_filters"
        " duplicate_stderr_filters log_line_prefix_template print_completion"
    ),
    flags=_names("standalone module no_python run_path use_env virtual_local_rank help"),
    aliases={"-m": "module", "-r": "redirects", "-t": "tee", "-h": "help"},
    defaults={
        "nnodes": "1:1",
        "nproc_per_node": "1",
        "rdzv_backend": "static",
        "rdzv_id": "none",
        "max_restarts": "0",
        "node_rank": "0",
        "master_addr": "127.0.0.1",
        "master_port": "29500",
    },
    environment="PET_",
    settle=_settle_torchrun,
    abbreviates=True,
)

DEEPSPEED = Grammar(
    launcher="deepspeed",
    values=_names(
        "hostfile include exclude num_nodes min_elastic_nodes max_elastic_nodes num_gpus master_port master_addr"
        " node_rank launcher launcher_args enable_each_rank_log autotuning comment account bind_core_list ssh_port"
        " venv_script log_dir"
    ),
    flags=_names(
        "module no_python no_local_rank no_ssh no_ssh_check force_multi save_pid elastic_training"
        " bind_cores_to_rank help"
    ),
    aliases={
        "-H": "hostfile",
        "-i": "include",
        "-e": "exclude",
        "--num_accelerators": "num_gpus",
        "-h": "help",
    },
    defaults={"hostfile": "/job/hostfile", "master_port": "29500", "launcher": "pdsh"},
)

ACCELERATE = Grammar(
    launcher="accelerate",
    values=_names(
        "config_file mixed_precision num_processes num_machines num_cpu_threads_per_process dynamo_backend dynamo_mode"
        " gpu_ids machine_rank main_process_ip main_process_port tee log_dir role rdzv_backend rdzv_conf max_restarts"
        " monitor_interval vm env main_training_function deepspeed_config_file zero_stage offload_optimizer_device"
        " offload_param_device offload_optimizer_nvme_path offload_param_nvme_path gradient_accumulation_steps"
        " gradient_clipping zero3_init_flag zero3_save_16bit_model deepspeed_hostfile deepspeed_exclusion_filter"
        " deepspeed_inclusion_filter deepspeed_multinode_launcher deepspeed_moe_layer_cls_names fsdp_version"
        " fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy fsdp_reshard_after_forward"
        " fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type"
        " fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states"
        " fsdp_activation_checkpointing mpirun_hostfile mpirun_ccl"
    ),
    flags=_names(
        "quiet cpu multi_gpu tpu enable_cpu_affinity dynamo_use_fullgraph dynamo_use_dynamic use_deepspeed use_fsdp"
        " use_parallelism_config use_megatron_lm same_network module no_python tpu_cluster no_tpu_cluster tpu_use_sudo"
        " downcast_bf16 fp8_use_autocast_during_eval debug dynamo_use_regional_compilation help"
    ),
    aliases={"-m": "module", "-q": "quiet", "-t": "tee", "-h": "help"},
    handed_on={
        "torchrun_nnodes": "PET_NNODES",
        "torchrun_node_rank": "PET_NODE_RANK",
        "torchrun_rdzv_endpoint": "PET_RDZV_ENDPOINT",
        "torchrun_master_addr": "PET_MASTER_ADDR",
        "world_size": "WORLD_SIZE",
    },
)

MPIRUN = Grammar(
    launcher="mpirun",
    values=_names(
        "np hostfile host bind_to map_by rank_by npernode npersocket wdir prefix path tune timeout report_uri"
        " output_filename stdin output rankfile app am cpu_list cpu_set cpus_per_proc cpus_per_rank ppn perhost"
        " bootstrap bootstrap_exec launcher launcher_exec rmk iface display display_allocation_file max_restarts"
        " personality runtime_options with_ft slot_list preload_files ompi_server"
    ),
    flags=_names(
        "allow_run_as_root oversubscribe nooversubscribe use_hwthread_cpus tag_output timestamp_output xterm verbose"
        " quiet report_bindings display_map display_allocation display_devel_map nolocal pernode bynode byslot"
        " bind_to_core bind_to_none bind_to_socket do_not_launch debug_daemons leave_session_attached version help"
        " genvall genvnone enable_recovery disable_recovery get_stack_traces merge_stderr_to_stdout show_progress"
        " continuous index_argv_by_rank forward_signals_flag novm"
    ),
    pairs=_names("mca gmca omca pmixmca prtemca genv env"),
    variables=_names("x"),
    aliases={
        "-n": "np",
        "--n": "np",
        "-c": "np",
        "--c": "np",
        "-H": "host",
        "-N": "npernode",
        "--N": "npernode",
        "-machinefile": "hostfile",
        "--machinefile": "hostfile",
        "--default-hostfile": "hostfile",
        "-f": "hostfile",
        "-hosts": "host",
        "-v": "verbose",
        "-q": "quiet",
        "-h": "help",
        "-V": "version",
        "-wd": "wdir",
        "--wd": "wdir",
        "-rf": "rankfile",
    },
)

HOROVODRUN = Grammar(
    launcher="horovodrun",
    values=_names(
        "np ssh_port ssh_identity_file network_interfaces output_filename config_file hosts hostfile start_timeout"
        " min_np max_np slots_per_host elastic_timeout reset_limit cycle_time_ms fusion_threshold_mb cache_capacity"
        " mpi_args gloo_timeout_seconds timeline_filename log_level num_nccl_streams blacklist_cooldown_range"
        " host_discovery_script autotune_log_file thread_affinity binding_args"
    ),
    flags=_names(
        "version check_build verbose disable_cache hierarchical_allreduce hierarchical_allgather autotune gloo mpi"
        " jsrun tcp log_with_timestamp log_hide_timestamp stall_check no_stall_check timeline_mark_cycles"
        " prefix_output_with_timestamp help"
    ),
    aliases={
        "-np": "np",
        "--num-proc": "np",
        "--num_proc": "np",
        "-p": "ssh_port",
        "-i": "ssh_identity_file",
        "-H": "hosts",
        "-hostfile": "hostfile",
        "--network-interface": "network_interfaces",
        "--min-num-proc": "min_np",
        "--max-num-proc": "max_np",
        "-v": "version",
        "-cb": "check_build",
        "-h": "help",
    },
)

COMPOSER = Grammar(
    launcher="composer",
    values=_names("nproc stdout stderr world_size base_rank node_rank master_addr master_port"),
    flags=_names("verbose module_mode command_mode version help"),
    aliases={"-n": "nproc", "-v": "verbose", "-m": "module_mode", "-c": "command_mode", "-h": "help"},
    handed_on={
        "world_size": "WORLD_SIZE",
        "node_rank": "NODE_RANK",
        "master_addr": "MASTER_ADDR",
        "master_port": "MASTER_PORT",
    },
)

FABRIC = Grammar(
    launcher="fabric",
    values=_names("accelerator strategy devices num_nodes node_rank main_address main_port precision"),
    flags=_names("help"),
)

BY_COMMAND: Mapping[str, Grammar] = {
    "torchrun": TORCHRUN,
    "composer": COMPOSER,
    "deepspeed": DEEPSPEED,
    "ds": DEEPSPEED,
    "accelerate-launch": ACCELERATE,
    "mpirun": MPIRUN,
    "mpiexec": MPIRUN,
    "mpiexec.hydra": MPIRUN,
    "orterun": MPIRUN,
    "prterun": MPIRUN,
    "horovodrun": HOROVODRUN,
}

BY_SUBCOMMAND: Mapping[str, tuple[str, Grammar]] = {
    "accelerate": ("launch", ACCELERATE),
    "fabric": ("run", FABRIC),
    "lightning": ("run", FABRIC),
}
"""Programs that start ranks by one of their commands."""

BY_MODULE: Mapping[str, Grammar] = {
    "torch.distributed.run": TORCHRUN,
    "torch.distributed.launch": TORCHRUN,
    "deepspeed.launcher.runner": DEEPSPEED,
    "accelerate.commands.launch": ACCELERATE,
    "horovod.runner.launch": HOROVODRUN,
}

PYTHON_ENVIRONMENT: Mapping[str, str] = {
    "master_addr": "MASTER_ADDR",
    "master_port": "MASTER_PORT",
    "world_size": "WORLD_SIZE",
    "rank": "RANK",
}
"""Variables that torch.distributed reads in a script that no launcher starts (`init_method` env://)."""
