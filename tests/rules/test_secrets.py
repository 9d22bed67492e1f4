"""SEC rules. The secrets of these tests are made up, and put together here so that no scanner takes them for real."""

import base64
import json

import pytest

from tests.rules.judging import judge, judge_good_job_with

HUGGING_FACE = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3f"
AWS = "AKIA" + "Q3EGUI5K7M2XW4TB"
GITHUB = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
WANDB = "3f9a" * 10
KEY = "9c2e71f0a3b84d56" * 2

APPLICATION = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: apps}\n---\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: wandb, namespace: research}\n"


def env(name: str, value: str) -> str:
    container = {"name": "trainer", "env": [{"name": name, "value": value}]}
    return json.dumps({"kind": "Job", "spec": {"template": {"spec": {"containers": [container]}}}})


@pytest.mark.claim("secrets-stay-out")
@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("HF_TOKEN", HUGGING_FACE, "a Hugging Face token: hf_a..."),
        ("SETTINGS", f"region=x;key={AWS}", "an AWS access key: AKIA..."),
        ("GIT", GITHUB, "a GitHub token: ghp_..."),
        ("WANDB_API_KEY", WANDB, "what looks like a secret: 3f9a..."),
        ("DATABASE", "postgres://train:" + "s3cr3tpass" + "@db:5432/x", "a password in a URL: s3cr..."),
        ("KEY", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc", "a private key: ----..."),
        ("REDIS_PASSWORD", "hunter2", "what looks like a secret: hunt..."),
        ("NCCL_PSK", "a-shared-key-that-is-32-bytes-long", "a shared key: a-sh..."),
    ],
)
def test_secrets_in_the_environment(name: str, value: str, what: str) -> None:
    field = f"Job/llama-sft spec.template.spec.containers[0].env[{name}].value"
    assert judge_good_job_with("SEC001", env(name, value)) == [f"error: {name} holds {what} @ {field}"]


@pytest.mark.parametrize(
    "value",
    [
        "REPLACE_WITH_YOUR_TOKEN_1",
        "<your-token-12345678>",
        "your_wandb_api_key_2024",
        "enterYourSecret==1234",
        "changeme-changeme-123",
        "xxxxxxxxxxxxxxxx-1234",
        "insert-token-here-0001",
        "PLACEHOLDER_TOKEN_0001",
        "example-token-12345678",
        base64.b64encode(b"put your token here, 1").decode(),
    ],
)
def test_what_stands_for_a_secret_to_come(value: str) -> None:
    assert judge_good_job_with("SEC001", env("WANDB_API_KEY", value)) == []
    data = "stringData: " + json.dumps({"key": value})
    assert judge("SEC001", SECRET + data) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "hf_" + "x" * 34),
        ("HF_TOKEN", "$(TOKEN)"),
        ("HF_TOKEN", "${HF_TOKEN}"),
        ("HF_TOKEN_PATH", "/var/run/secrets/token"),
        ("TOKEN", "/var/run/secrets/token1234567890"),
        ("WANDB_API_KEY", "disabled"),
        ("PAD_TOKEN", "<|endoftext_0123456789|>"),
        ("MAX_TOKENS", "2048"),
        ("ENDPOINT", "http://minio:9000/bucket"),
        ("ENDPOINT", "https://user:${PASSWORD}@host/"),
        ("GIT_SHA", "3f9a" * 10),
    ],
)
def test_what_is_no_secret(name: str, value: str) -> None:
    assert judge_good_job_with("SEC001", env(name, value)) == []


def test_no_message_holds_the_secret() -> None:
    for value in (HUGGING_FACE, AWS, GITHUB, WANDB):
        assert all(value not in line for line in judge_good_job_with("SEC001", env("MY_API_KEY", value)))


@pytest.mark.claim("secrets-stay-out")
def test_a_secret_in_a_config_map() -> None:
    config = {"kind": "ConfigMap", "metadata": {"name": "llama-sft-trainer"}, "data": {"token": HUGGING_FACE}}
    assert judge_good_job_with("SEC001", json.dumps(config)) == [
        "error: token holds a Hugging Face token: hf_a... @ ConfigMap/llama-sft-trainer data.token"
    ]


def test_a_secret_on_a_command_line() -> None:
    job = (
        f"kind: Job\nspec: {{template: {{spec: {{containers: [{{name: trainer, args: [--token={HUGGING_FACE}]}}]}}}}}}"
    )
    assert judge_good_job_with("SEC001", job) == [
        "error: a text holds a Hugging Face token: hf_a... @ Job/llama-sft spec.template.spec.containers[0].args[0]"
    ]


def run(*words: str) -> str:
    container = {"name": "trainer", "args": list(words)}
    return json.dumps({"kind": "Job", "spec": {"template": {"spec": {"containers": [container]}}}})


@pytest.mark.claim("secrets-stay-out")
@pytest.mark.parametrize(
    ("words", "name", "index"),
    [
        ([f"--wandb_api_key={KEY}"], "--wandb_api_key", 0),
        ([f"--wandb-api-key={KEY}"], "--wandb-api-key", 0),
        (["train.py", "--wandb_api_key", KEY], "--wandb_api_key", 2),
        ([f"set -e\npython train.py --lr 1e-4 --hub_token '{KEY}' --bf16"], "--hub_token", 0),
        ([f"export WANDB_API_KEY={KEY}; python train.py"], "WANDB_API_KEY", 0),
        (["--redis-password=hunter2"], "--redis-password", 0),
    ],
)
def test_an_argument_counts_as_the_variable_of_its_name(words: list[str], name: str, index: int) -> None:
    [said] = judge_good_job_with("SEC001", run(*words))
    at = f"Job/llama-sft spec.template.spec.containers[0].args[{index}]"
    value = "hunt" if "hunter2" in words[0] else KEY[:4]
    assert said == f"error: {name} holds what looks like a secret: {value}... @ {at}"


def test_a_script_in_a_config_map_gives_a_secret() -> None:
    script = f"#!/bin/bash\nexec torchrun train.py --wandb_api_key={KEY}\n"
    config = {"kind": "ConfigMap", "metadata": {"name": "llama-sft-trainer"}, "data": {"run.sh": script}}
    assert judge_good_job_with("SEC001", json.dumps(config)) == [
        f"error: --wandb_api_key holds what looks like a secret: {KEY[:4]}... "
        "@ ConfigMap/llama-sft-trainer data[run.sh]"
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["--wandb_api_key=$(WANDB_API_KEY)"],
        ["--wandb_api_key", "$WANDB_API_KEY"],
        ["--wandb_api_key", "--bf16"],
        ["--wandb_api_key=/var/run/secrets/wandb/api-key-12345678"],
        ["--wandb_api_key=REPLACE_WITH_YOUR_TOKEN_1"],
        ["--pad_token=<|reserved_special_token_250|>"],
        ["--stop_token", "reserved_special_token_250"],
        ["--webhook-secret=kubeflow-trainer-webhook-cert-2"],
        ["--max_new_tokens=2048"],
        [f"--commit={KEY}"],
        ['python -c "token=tokenizer.reserved_special_token2; password=getpass()"'],
        ["echo usage: --password PASSWORD"],
        ["python train.py --hub_token ${HUB_TOKEN} --wandb_api_key=`cat /run/wandb/key0123456789`"],
    ],
)
def test_arguments_that_give_no_secret(words: list[str]) -> None:
    assert judge_good_job_with("SEC001", run(*words)) == []


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (f"data: {{key: {base64.b64encode(b'abcdef').decode()}}}", "data.key"),
        ("stringData: {a.b: hello}", "stringData[a.b]"),
        ("data: {}", None),
        ("stringData: {key: '${WANDB_KEY}'}", None),
        ("data: {key: ENC}\nsops: {version: 3.9.0}", None),
    ],
)
def test_secret_objects(content: str, field: str | None) -> None:
    said = f"Secret wandb holds its content in Git @ Secret/wandb {field}"
    assert judge("SEC001", SECRET + content) == ([f"info: {said}"] if field else [])
    assert judge("SEC001", f"{APPLICATION}{SECRET}{content}") == ([f"error: {said}"] if field else [])


def test_a_password_that_somebody_made_up_is_information() -> None:
    [said] = judge("SEC001", SECRET + "stringData: {password: '7241990000000000'}\n")
    assert said.startswith("info: ")


@pytest.mark.parametrize("secret", [HUGGING_FACE, AWS, "-----BEGIN RSA PRIVATE KEY-----\nabc", KEY])
@pytest.mark.parametrize("field", ["data", "stringData"])
def test_a_token_in_a_secret_is_an_error_wherever_it_stands(secret: str, field: str) -> None:
    text = base64.b64encode(secret.encode()).decode() if field == "data" else secret
    [said] = judge("SEC001", f"{SECRET}{field}: {json.dumps({'api-token': text})}\n")
    assert said.startswith("error: Secret wandb holds its content in Git")


def test_settings_of_a_secret_are_none_themselves() -> None:
    told = {"url": "https://charts.example.com", "type": "helm", "enableOCI": "true", "username": "robot"}
    assert judge("SEC001", SECRET + "stringData: " + json.dumps(told)) == []
    assert len(judge("SEC001", SECRET + "stringData: " + json.dumps({**told, "password": "hunter2!"}))) == 1
    within = {"url": "https://robot:" + "s3cr3tpass" + "@charts.example.com"}
    assert len(judge("SEC001", SECRET + "stringData: " + json.dumps(within))) == 1


def test_a_checksum_of_a_secret_is_none() -> None:
    annotation = {"checksum/secret": "3f9a" * 16}
    job = {"kind": "Job", "spec": {"template": {"metadata": {"annotations": annotation}}}}
    assert judge_good_job_with("SEC001", json.dumps(job)) == []


def test_a_weak_password_is_an_error_where_git_is_followed() -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: db}\nspec: {containers: [{name: db, env: [%s]}]}\n"
    manifest = pod % "{name: MYSQL_PASSWORD, value: hunter2}"
    assert [said.partition(":")[0] for said in judge("SEC001", manifest)] == ["info"]
    assert [said.partition(":")[0] for said in judge("SEC001", APPLICATION + manifest)] == ["error"]


def image(name: str) -> str:
    return f"kind: Job\nspec: {{template: {{spec: {{containers: [{{name: trainer, image: {json.dumps(name)}}}]}}}}}}"


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("registry.example.com:5000/train:v2", "a tag"),
        ("registry.example.com:5000/train", "nothing but its name"),
        ("registry.example.com/train@sha256:" + "0" * 64, None),
        ("registry.example.com/train:v2@sha256:" + "0" * 64, None),
        ("$(IMAGE)", None),
    ],
)
def test_images(name: str, how: str | None) -> None:
    said = (
        f"warning: image {name} is named by {how}, not by digest @ Job/llama-sft spec.template.spec.containers[0].image"
    )
    assert judge_good_job_with("SEC002", image(name)) == ([said] if how else [])


ACCOUNT = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: train, namespace: ml}\n"
CLOSED = ACCOUNT + "automountServiceAccountToken: false\n"
JOB = """---
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml}
spec: {template: {spec: {serviceAccountName: train, containers: [{name: trainer, image: trainer}]%s}}}
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (CLOSED + JOB % "", 0),
        (ACCOUNT + JOB % ", automountServiceAccountToken: false", 0),
        (ACCOUNT + JOB % "", 1),
        (CLOSED + JOB % ", automountServiceAccountToken: true", 1),
        (ACCOUNT + JOB % ", initContainers: [{name: w, image: x, command: [kubectl, wait]}]", 0),
        (
            ACCOUNT + JOB % "" + "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n"
            "metadata: {name: a, namespace: ml}\nsubjects: [{kind: ServiceAccount, name: train}]\n",
            0,
        ),
    ],
    ids=["closed account", "closed pod", "open", "asked for", "kubectl", "bound to a role"],
)
def test_tokens(text: str, count: int) -> None:
    assert len(judge("SEC003", text)) == count


def test_plain_manifests_without_an_account_are_left_alone() -> None:
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: a}]}}}"
    assert judge("SEC003", job) == []
