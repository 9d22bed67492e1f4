"""Rules on one variable of the good job."""

import pytest

from tests.rules.judging import judge_variable


@pytest.mark.parametrize(
    ("rule", "name", "value", "said"),
    [
        ("ENV001", "NCCL_P2P_DISABLE", "true", [
            'error: NCCL_P2P_DISABLE is a whole number, and "true" is read as 0 by'
            ' NCCL'
        ]),
        ("ENV001", "NCCL_NTHREADS", "auto", [
            'error: NCCL_NTHREADS is a whole number, and "auto" is read as 0 by'
            ' NCCL'
        ]),
        ("ENV001", "PET_STANDALONE", "yes", ['error: PET_STANDALONE is a whole number, and "yes" stops torchrun']),
        ("ENV001", "NCCL_P2P_DISABLE", "$(SWITCH)", []),
        ("ENV001", "NCCL_P2P_DISABLE", "${SWITCH}", []),
        ("ENV001", "NCCL_P2P_DISABLE", "{{ .Values.switch }}", []),
        ("ENV001", "NCCL_P2P_DISABLE", "", []),
        ("ENV001", "NCCL_P2P_DISABLE", "false", []),
        ("ENV010", "NCCL_P2P_DISABLE", "false", [
            'warning: NCCL_P2P_DISABLE is a whole number, and "false" is read as 0 only by'
            ' accident'
        ]),
        ("ENV001", "TORCH_NCCL_ENABLE_MONITORING", "true", []),
        ("ENV002", "NCCL_SOKCET_IFNAME", "eth0", [
            "error: NCCL_SOKCET_IFNAME is read by nothing; NCCL_SOCKET_IFNAME is one that NCCL"
            " reads"
        ]),
        ("ENV002", "NCCL_IB_DISABLED", "1", [
            "error: NCCL_IB_DISABLED is read by nothing; NCCL_IB_DISABLE is one that NCCL"
            " reads"
        ]),
        ("ENV002", "NCCL_MIN_NCHANNEL", "8", [
            "error: NCCL_MIN_NCHANNEL is read by nothing; NCCL_MIN_NCHANNELS is now NCCL_MIN_CTAS"
        ]),
        ("ENV002", "NCCL_ASYNC_ERROR_HANDELING", "1", [
            "error: NCCL_ASYNC_ERROR_HANDELING is read by nothing; NCCL_ASYNC_ERROR_HANDLING is now"
            " TORCH_NCCL_ASYNC_ERROR_HANDLING"
        ]),
        ("ENV002", "NCCL_HOME", "/opt", []),
        ("ENV002", "NCCL_SITE_SCRIPT", "/opt", []),
        ("ENV002", "UCX_DC_TIMEOUT", "1s", []),
        ("ENV032", "NCCL_DEBUG_SUBSYSTEM", "INIT", [
            "info: NCCL_DEBUG_SUBSYSTEM is not among the variables that NCCL and its known plugins"
            " read"
        ]),
        ("ENV032", "NCCL_BOOTSTRAP_TIMEOUT", "600", [
            "info: NCCL_BOOTSTRAP_TIMEOUT is not among the variables that NCCL and its known plugins"
            " read"
        ]),
        ("ENV032", "TORCH_NCCL_TIMEOUT_SEC", "600", [
            "info: TORCH_NCCL_TIMEOUT_SEC is not among the variables that PyTorch reads"
        ]),
        ("ENV032", "PET_WORLD_SIZE", "16", ["info: PET_WORLD_SIZE is not among the variables that torchrun reads"]),
        ("ENV032", "OFI_NCCL_TRANSPORT", "rdma", [
            "info: OFI_NCCL_TRANSPORT is not among the variables that the OFI plugin reads"
        ]),
        ("ENV032", "NCCL_IB_TIMOUT", "20", []),
        ("ENV032", "NCCL_MIN_NCHANNELS", "8", []),
        ("ENV032", "NCCL_FASTRAK_NEW_SWITCH", "1", []),
        ("ENV032", "NCCL_GPUDIRECTTCPX_NEW_SWITCH", "1", []),
        ("ENV032", "NCCL_TUNER_SITE_TABLE", "/a", []),
        ("ENV032", "NCCL_TESTS_SPLIT", "%8", []),
        ("ENV032", "NCCL_SITE_SCRIPT", "/opt/x.sh", []),
        ("ENV032", "UCX_SOMETHING_NEW", "1", []),
        ("ENV006", "NCCL_IB_DISABLED", "1", []),
        ("ENV006", "NCCL_TIMEOUT", "7200", ["warning: NCCL_TIMEOUT is read by no release"]),
        ("ENV006", "NCCL_TREE_THRESHOLD", "0", ["warning: NCCL_TREE_THRESHOLD is no longer read by NCCL since 2.5"]),
        ("ENV006", "NCCL_BLOCKING_WAIT", "1", ["warning: NCCL_BLOCKING_WAIT is deprecated by PyTorch since 2.2"]),
        ("ENV006", "TORCH_NCCL_TRACE_BUFFER_SIZE", "2000", []),
        ("ENV003", "NCCL_BUFFSIZE", "8M", ['error: NCCL_BUFFSIZE is "8M", which NCCL reads as 8']),
        ("ENV003", "NCCL_BUFFSIZE", "4MiB", ['error: NCCL_BUFFSIZE is "4MiB", which NCCL reads as 4']),
        ("ENV003", "NCCL_BUFFSIZE", "1e6", ['error: NCCL_BUFFSIZE is "1e6", which NCCL reads as 1']),
        ("ENV003", "NCCL_IB_TC", "010", ['error: NCCL_IB_TC is "010", which NCCL reads as 8']),
        ("ENV003", "NCCL_BUFFSIZE", "0x800000", []),
        ("ENV003", "NCCL_BUFFSIZE", "0", []),
        ("ENV004", "NCCL_BUFFSIZE", "8M", []),
        ("ENV004", "NCCL_IB_TIMEOUT", "40", ['error: NCCL_IB_TIMEOUT is "40", which is above 31']),
        ("ENV004", "NCCL_PROTO", "LL64", [
            'error: NCCL_PROTO is "LL64", which holds LL64, which is none of LL, LL128,'
            ' Simple'
        ]),
        ("ENV004", "TORCH_NCCL_BLOCKING_WAIT", "enabled", [
            'error: TORCH_NCCL_BLOCKING_WAIT is "enabled", which is none of 0, 1, f, false, n, no, t, true,'
            ' y, yes'
        ]),
        ("ENV010", "NCCL_SOCKET_FAMILY", "ipv4", [
            'warning: NCCL_SOCKET_FAMILY is "ipv4", which is none of AF_INET,'
            ' AF_INET6'
        ]),
        ("ENV010", "NCCL_IB_RETRY_CNT", "14", ['warning: NCCL_IB_RETRY_CNT is "14", which is above 7']),
        ("ENV010", "NCCL_DEBUG", "warn", []),
        ("NCL007", "NCCL_DEBUG", "info", [
            "warning: NCCL_DEBUG is info: each of 32 ranks prints its topology at each"
            " start"
        ]),
        ("NCL010", "NCCL_IB_GID_INDEX", "3", [
            "warning: NCCL_IB_GID_INDEX is fixed at 3, but the index differs between hosts and"
            " pods"
        ]),
        ("NCL011", "NCCL_ALGO", "Rings", []),
        ("NCL012", "NCCL_NET_GDR_LEVEL", "PHB", ["warning: NCCL_NET_GDR_LEVEL is forced to PHB instead of measured"]),
        ("NCL012", "NCCL_NET_GDR_LEVEL", "2", ["warning: NCCL_NET_GDR_LEVEL is 2, a number of a legacy scale"]),
        ("NCL012", "NCCL_P2P_LEVEL", "nvl", [
            'warning: NCCL_P2P_LEVEL is "nvl", which is none of LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN,'
            ' PHB, SYS, 0, 1, 2, 3, 4, 5'
        ]),
        ("NCL012", "NCCL_P2P_LEVEL", "NVL", []),
        ("NCL003", "NCCL_NET", "Socket", ["error: NCCL_NET is Socket, but the pods request rdma/hca: 1"]),
        ("NCL003", "NCCL_IB_DISABLE", "0", []),
        ("ENV005", "NCCL_SOCKET_IFNAME", "lo", [
            'error: NCCL_SOCKET_IFNAME is "lo", which selects lo, which no other node can'
            ' reach'
        ]),
        ("ENV005", "NCCL_SOCKET_IFNAME", "10.0.0.4", [
            'error: NCCL_SOCKET_IFNAME is "10.0.0.4", which is an address: the name of an interface is'
            ' expected'
        ]),
        ("ENV005", "NCCL_SOCKET_IFNAME", "^eth", [
            'error: NCCL_SOCKET_IFNAME is "^eth", which excludes eth0, the only interface of a'
            ' pod'
        ]),
        ("ENV005", "NCCL_SOCKET_IFNAME", "^=eth", []),
        ("ENV005", "NCCL_SOCKET_IFNAME", "^lo,docker", []),
        ("ENV005", "NCCL_SOCKET_IFNAME", "==eth0", [
            'error: NCCL_SOCKET_IFNAME is "==eth0", which holds =eth0: the library does not read = as a'
            ' marker anywhere but at the very start, once'
        ]),
        ("ENV005", "GLOO_SOCKET_IFNAME", "docker0", [
            'error: GLOO_SOCKET_IFNAME is "docker0", which selects docker0, which no other node can'
            ' reach'
        ]),
        ("ENV005", "OMPI_MCA_btl_tcp_if_exclude", "lo,docker0", []),
        ("ENV005", "OMPI_MCA_btl_tcp_if_include", "10.0.0.0/16", []),
        ("ENV005", "NCCL_SOCKET_IFNAME", "ens5", [
            'error: NCCL_SOCKET_IFNAME is "ens5", which no pod has: off the node\'s network, and without more networks,'
            ' it has eth0 alone'
        ]),
        ("ENV005", "GLOO_SOCKET_IFNAME", "eth1", [
            'error: GLOO_SOCKET_IFNAME is "eth1", which no pod has: off the node\'s network, and without more networks,'
            ' it has eth0 alone'
        ]),
        ("ENV005", "NCCL_SOCKET_IFNAME", "eth0,ens5", []),
        ("ENV005", "GLOO_SOCKET_IFNAME", "^eth", []),
        ("ENV002", "UCX_NET_DEVICE", "eth0", [
            "error: UCX_NET_DEVICE is read by nothing; UCX_NET_DEVICES is one that UCX"
            " reads"
        ]),
        ("ENV002", "OMPI_MCA_btl_tcp_if_inlcude", "eth0", [
            "error: OMPI_MCA_btl_tcp_if_inlcude is read by nothing; OMPI_MCA_btl_tcp_if_include is one that Open MPI"
            " reads"
        ]),
        ("ENV002", "FI_LOG_LEVELS", "warn", [
            "error: FI_LOG_LEVELS is read by nothing; FI_LOG_LEVEL is one that the OFI plugin"
            " reads"
        ]),
        ("ENV002", "OMPI_MCA_bml", "r2", []),
        ("NCL011", "NCCL_ALGO", "Ring", [
            "warning: NCCL_ALGO is fixed at Ring, so NCCL's tuner cannot choose by size and"
            " collective"
        ]),
        ("NCL011", "NCCL_ALGO", "Tree", []),
        ("NCL037", "NCCL_ALGO", "nvlstree,tree", [
            "error: NCCL_ALGO is nvlstree,tree, which leaves some collectives without an"
            " algorithm"
        ]),
        ("NCL037", "NCCL_ALGO", "Ring,Tree", []),
        ("NCL011", "NCCL_PROTO", "LL128", []),
        ("NCL038", "NCCL_PROTO", "allreduce:LL128,Simple", [
            "error: NCCL_PROTO is allreduce:LL128,Simple, which allows LL128 on paths that may split its"
            " stores"
        ]),
        ("NCL039", "NCCL_BUFFSIZE", "65536", ["warning: NCCL_BUFFSIZE is 65536, below 1 MiB"]),
        ("NCL039", "NCCL_BUFFSIZE", "268435456", [
            "warning: NCCL_BUFFSIZE is 268435456, which is taken for each channel and"
            " peer"
        ]),
        ("NCL039", "NCCL_P2P_NET_CHUNKSIZE", "1048576", [
            "warning: NCCL_P2P_NET_CHUNKSIZE is 1048576, and NCCL cuts it to an eighth of 4194304:"
            " 524288"
        ]),
        ("NCL029", "NCCL_IB_HCA", "eth0", [
            "warning: NCCL_IB_HCA is eth0, but eth0 is a network interface and no RDMA"
            " device"
        ]),
        ("NCL029", "NCCL_IB_HCA", "mlx5_1,mlx5_12", [
            "warning: NCCL_IB_HCA is mlx5_1,mlx5_12, and its prefixes take mlx5_10"
            " too"
        ]),
        ("NCL029", "NCCL_IB_HCA", "mlx5_0:1,mlx5_1:1", []),
        ("NCL029", "NCCL_IB_HCA", ":1,", []),
        ("NCL031", "NCCL_IB_TIMEOUT", "26", [
            "warning: NCCL_IB_TIMEOUT is 26: 4.096 us x 2^26 = 275 s per try, 37 minutes until a dead link is an"
            " error"
        ]),
        ("ENV021", "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments=True", [
            'error: PYTORCH_CUDA_ALLOC_CONF is "expandable_segments=True", where "expandable_segments=True" is not a'
            ' valid name:value pair'
        ]),
        ("ENV021", "PYTORCH_ALLOC_CONF", "max_split_size_mb:512,expandable_segments:1", [
            'error: PYTORCH_ALLOC_CONF is "max_split_size_mb:512,expandable_segments:1", where expandable_segments is'
            ' 1, neither True nor False'
        ]),
        ("ENV009", "GLOO_SOCKET_IFNAME", "eth", [
            'error: GLOO_SOCKET_IFNAME is "eth", which is a prefix, but the library looks for an interface of'
            ' exactly that name'
        ]),
    ],
)  # fmt: skip
def test_one_variable(rule: str, name: str, value: str, said: list[str]) -> None:
    assert judge_variable(rule, name, value) == [f"{line} @ ConfigMap/llama-sft-nccl data.{name}" for line in said]
