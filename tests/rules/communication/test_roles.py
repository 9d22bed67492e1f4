"""Roles of one job that do not agree."""

from tests.rules.communication.jobs import MASTER_ENV, PYTORCH
from tests.rules.judging import judge


def test_one_mistake_in_two_roles_is_told_once() -> None:
    switch = "{name: NCCL_P2P_DISABLE, value: 'yes'}"
    assert judge("ENV001", PYTORCH % (switch, switch, "")) == [
        'error: NCCL_P2P_DISABLE is a whole number, and "yes" is read as 0 by NCCL'
        f" @ {MASTER_ENV}[NCCL_P2P_DISABLE].value"
    ]


def test_a_variable_that_one_role_lacks() -> None:
    assert judge("ENV007", PYTORCH % ("{name: NCCL_PROTO, value: Simple}", "", "")) == [
        f"error: NCCL_PROTO is Simple in master and not set in worker @ {MASTER_ENV}[NCCL_PROTO].value"
    ]


def test_a_role_whose_environment_is_not_known_may_have_it() -> None:
    source = "envFrom: [{configMapRef: {name: site}}], "
    assert judge("ENV007", PYTORCH % ("{name: NCCL_PROTO, value: Simple}", "", source)) == []


def test_a_value_that_is_not_known_may_be_the_same() -> None:
    unknown = "{name: NCCL_PROTO, value: $(PROTO)}"
    assert judge("ENV007", PYTORCH % ("{name: NCCL_PROTO, value: Simple}", unknown, "")) == []


def test_ranks_may_log_differently() -> None:
    assert judge("ENV007", PYTORCH % ("{name: NCCL_DEBUG, value: INFO}", "", "")) == []
    assert judge("ENV012", PYTORCH % ("{name: NCCL_DEBUG, value: INFO}", "", "")) == []


def test_a_library_switch_in_one_role() -> None:
    assert judge("ENV012", PYTORCH % ("", "{name: TORCH_CUDNN_V8_API_DISABLED, value: '1'}", "")) == [
        "warning: TORCH_CUDNN_V8_API_DISABLED is not set in master and 1 in worker"
        f" @ {MASTER_ENV.replace('Master', 'Worker')}[TORCH_CUDNN_V8_API_DISABLED].value"
    ]
