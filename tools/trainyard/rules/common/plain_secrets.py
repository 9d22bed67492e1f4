"""Secrets that stand readable in texts and objects."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from trainyard.catalogues.variables import variable
from trainyard.objects.objects import Object
from trainyard.workload.plain import mapping

_SHAPES = (
    (re.compile(r"\bhf_[A-Za-z0-9]{20,}"), "a Hugging Face token"),
    (re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"), "an AWS access key"),
    (re.compile(r"\b(gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,})"), "a GitHub token"),
    (re.compile(r"\bglpat-[\w-]{20,}"), "a GitLab token"),
    (re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10,}"), "a Slack token"),
    (re.compile(r"\bsk-(ant-|proj-)?[A-Za-z0-9_-]{32,}"), "an API key"),
    (re.compile(r"\bAIza[0-9A-Za-z_-]{35}"), "a Google API key"),
    (re.compile(r"\bnvapi-[\w-]{32,}"), "an NVIDIA API key"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"), "a private key"),
    (re.compile(r"\b[a-z][a-z0-9+.-]{0,40}://[^\s/:@${}<>]+:(?P<part>[^\s/@${}<>]{3,})@"), "a password in a URL"),
)
_HINT = re.compile(r"hf_|A[KS]IA|gh[pousr]_|github_pat_|glpat-|xox|sk-|AIza|nvapi-|PRIVATE KEY|://[^/]*@")
"""What every shape above holds; one search instead of ten for nearly every text."""
_NAME = re.compile(r"(API_?KEY|ACCESS_KEY|SECRET|SECRET_KEY|PASSWORD|PASSWD|TOKEN|CREDENTIALS?)\Z", re.IGNORECASE)
_GIVEN = re.compile(
    r"(?<![\w./${-])(?P<name>--?[A-Za-z][\w-]*(?=[= \t])|[A-Z][A-Z0-9_]*(?==))(?:=|[ \t]+)[\"']?"
    r"(?P<value>[^\s\"'`;|&)]+)"
)
"""An argument and its value, or a variable that a shell sets, within a text."""
_GIVEN_HINT = re.compile(r"(?:KEY|SECRET|PASSWD|PASSWORD|TOKEN|CREDENTIALS?|PSK)[= \t]", re.IGNORECASE)
_ARGUMENT = re.compile(r"--?[A-Za-z][\w-]*\Z")
_DRAWN = re.compile(r"(?=[A-Za-z+/]*[0-9])(?=[0-9+/]*[A-Za-z])[A-Za-z0-9+/]{16,}")
"""What is drawn at random, and no words with a number behind them."""
_OPAQUE = re.compile(r"[A-Za-z0-9+/=_.~-]{16,}\Z")
_VARIABLE = re.compile(r"\$[A-Za-z_]\w*\Z")
_REFERENCES = ("$(", "${", "{{", "<")
_PLACEHOLDER = re.compile(
    r"your|replace|change.?me|change.?it|placeholder|example|dummy|insert|enter|todo|fixme|redacted|-here\b|_here\b|xxxx"
    r"|\*\*\*|\.\.\.",
    re.IGNORECASE,
)
"""What stands in a text that is to be replaced by a secret."""
_SETTINGS = frozenset(
    {"database", "enableOCI", "endpoint", "host", "hostname", "insecure", "name", "namespace", "port", "project"}
    | {"region", "server", "type", "url", "user", "username"}
)
"""Keys of a Secret that say where it is used, and hold none."""
_NAMED = "what looks like a secret"
_VARIED = 8
"""Different characters of a key that was drawn at random; a password made up for a test has fewer."""


def known_secrets(text: str) -> list[str]:
    """What has the shape of a token or a password in a URL in a text, and what its arguments give."""
    given = [found.part for _, found in given_secrets(text)]
    if not _HINT.search(text):
        return given
    found = (match for shape, _ in _SHAPES for match in shape.finditer(text))
    return given + [match.groupdict().get("part") or match[0] for match in found]


def is_plain_secret(obj: Object) -> bool:
    """Whether an object is a Secret that SEC001 speaks of."""
    return obj.kind == "Secret" and obj.api_version == "v1" and any(True for _ in readable_content(obj))


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """A secret in a text."""

    what: str
    part: str
    certain: bool
    """False for a password that is weak enough to be made for a test."""


def readable_content(obj: Object) -> Iterator[tuple[str, str, FoundSecret | None]]:
    """Fields and keys of a Secret's readable content, and what is known of it: SOPS encrypts some, the deployer fills
    some in.
    """
    for field in ("data", "stringData") if "sops" not in obj.data else ():
        for key, text in mapping(obj.data.get(field)).items():
            if not isinstance(text, str) or not text:
                continue
            found = secret_in(str(key), _decoded(text) if field == "data" else text)
            if found is not None or not (key in _SETTINGS or _stands_for_a_secret(text)):
                yield field, key, found


@lru_cache(maxsize=4096)
def secret_in(name: str, text: str) -> FoundSecret | None:
    """The secret that a text holds, or None. `name` is the variable or key it is given to."""
    for shape, what in _SHAPES if _HINT.search(text) else ():
        match = shape.search(text)
        if match:
            part = match.groupdict().get("part") or match[0]
            return None if len(set(part[6:])) < 3 and len(part) > 12 else FoundSecret(what, part, certain=True)
    if not name or name.startswith("checksum/"):
        return None
    facts, named = variable(name), _NAME.search(name)
    shared = facts is not None and facts.secret
    if not (named or shared) or _stands_for_a_secret(text):
        return None
    if text.startswith(("/", "./", "~")) or text.endswith((".json", ".txt")):
        return None
    if shared and text:
        return FoundSecret("a shared key", text, certain=True)
    if named and _OPAQUE.match(text) and any(mark.isdigit() for mark in text) and len(set(text)) > 3:
        return FoundSecret(_NAMED, text, certain=len(set(text)) >= _VARIED)
    weak = _is_password(name) and len(text) >= 6 and " " not in text
    return FoundSecret(_NAMED, text, certain=False) if weak else None


def given_secrets(text: str) -> Iterator[tuple[str, FoundSecret]]:
    """Secrets that a command line or a script gives, each with the argument or variable that takes it."""
    for match in _GIVEN.finditer(text) if _GIVEN_HINT.search(text) else ():
        found = given_secret(match["name"], match["value"])
        if found is not None and (found.certain or match.end() - match.start() == len(text)):
            yield match["name"], found


def given_secret(argument: str, text: str) -> FoundSecret | None:
    """The secret that an argument such as --api-key takes, or None.

    Its name says less than a variable's, as a --stop-token is a word and a --webhook-secret an object: but for a
    password, the text has to look drawn at random.
    """
    found = None if text.startswith("-") else secret_in(argument.lstrip("-").replace("-", "_").upper(), text)
    if found is None or found.what != _NAMED or _is_password(argument) or _DRAWN.search(text):
        return found
    return None


def takes_a_value(text: str) -> bool:
    """Whether a text is an argument whose value is the next one."""
    return bool(_ARGUMENT.match(text))


def _is_password(name: str) -> bool:
    return re.search(r"PASSW(OR)?D\Z", name, re.IGNORECASE) is not None


def _stands_for_a_secret(text: str) -> bool:
    """Whether a text is to be replaced by a secret: a reference, a template, or words that say so, in base64 too."""
    return is_reference(text) or any(_PLACEHOLDER.search(each) for each in (text, _decoded(text)))


def _decoded(text: str) -> str:
    """The text that stands in base64, or nothing where none does."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return ""


def is_reference(text: str) -> bool:
    """Whether a text names a variable or a template, and is not the value itself."""
    return bool(_VARIABLE.match(text)) or any(mark in text for mark in _REFERENCES)
