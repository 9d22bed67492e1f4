"""Where the keys come from: a YAML file, then the environment, then the command line; the last one wins."""

import dataclasses
import difflib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import yaml

from trainer.config import Config
from trainer.errors import ConfigError

PREFIX = "TRAINER_"


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One key, by its dotted name."""

    name: str
    type: Any
    default: Any
    text: str
    unit: str
    low: float | None
    high: float | None
    above: bool
    job: str
    there: Mapping[str, Any]

    @property
    def variable(self) -> str:
        return PREFIX + self.name.replace(".", "_").upper()

    @property
    def choices(self) -> tuple[str, ...]:
        return get_args(self.type) if get_origin(self.type) is Literal else ()


def keys(of: type = Config, prefix: str = "") -> Iterator[Key]:
    """All keys, in the order of the config."""
    types = get_type_hints(of)
    for field in dataclasses.fields(of):
        if dataclasses.is_dataclass(types[field.name]):
            yield from keys(types[field.name], f"{field.name}.")
        else:
            yield Key(name=prefix + field.name, type=types[field.name], default=field.default, **field.metadata)


KEYS = {found.name: found for found in keys()}
VARIABLES = {found.variable: found for found in KEYS.values()}
assert len(VARIABLES) == len(KEYS)


def read(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Config:
    """The config of a command line `[CONFIG.yaml] [key.sub=value ...]` and an environment.

    Raises ConfigError with one line that names the source, the key and what would fit.
    """
    values: dict[str, Any] = {}
    files = [word for word in arguments if "=" not in word]
    if len(files) > 1:
        raise ConfigError(f"one config file can be read, not {len(files)}: {', '.join(files)}")
    for file in files:
        values.update(_from_file(Path(file)))
    values.update(_from_environment(environment))
    for word in arguments:
        if "=" in word:
            name, _, text = word.partition("=")
            known = _known(name.removeprefix("--"), KEYS, "command line")
            values[known.name] = _parsed(known, text, "command line")
    config: Config = _built(Config, values)
    return config


def set_keys(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> set[str]:
    """Names of the keys that a variable or the command line sets."""
    named = {word.partition("=")[0] for word in arguments if "=" in word}
    return named | {VARIABLES[name].name for name in environment if name in VARIABLES}


def dump(config: Any, prefix: str = "") -> dict[str, Any]:
    """The flat `{key: value}` of a config."""
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        nested = dataclasses.is_dataclass(value)
        flat |= dump(value, f"{field.name}.") if nested else {prefix + field.name: value}
    return flat


def _built(of: type, values: Mapping[str, Any], prefix: str = "") -> Any:
    types = get_type_hints(of)
    given = {}
    for field in dataclasses.fields(of):
        if dataclasses.is_dataclass(types[field.name]):
            given[field.name] = _built(types[field.name], values, f"{field.name}.")
        elif prefix + field.name in values:
            given[field.name] = values[prefix + field.name]
    return of(**given)


def _from_file(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected keys and values, found {type(content).__name__}")
    flat: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{sub}": inner for sub, inner in value.items()}
        else:
            flat[str(name)] = value
    return {name: _typed(_known(name, KEYS, str(path)), value, str(path)) for name, value in flat.items()}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found = {name: text for name, text in environment.items() if name.startswith(PREFIX)}
    return {
        (known := _known(name, VARIABLES, "environment")).name: _parsed(known, text, f"environment {name}")
        for name, text in sorted(found.items())
    }


def _known(name: str, among: Mapping[str, Key], source: str) -> Key:
    if name in among:
        return among[name]
    near = difflib.get_close_matches(name, among, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else "; --help lists the keys"
    raise ConfigError(f"{source}: unknown key {name}{hint}")


def _parsed(known: Key, text: str, source: str) -> Any:
    """A value from text."""
    if known.type is bool:
        if text not in ("true", "false"):
            raise ConfigError(f"{source}: {known.name} is true or false, not {text!r}")
        return text == "true"
    if known.type in (int, float):
        try:
            return _typed(known, known.type(text), source)
        except ValueError:
            kind = "a whole number" if known.type is int else "a number"
            raise ConfigError(f"{source}: {known.name} is {kind}, not {text!r}") from None
    return _typed(known, text, source)


def _typed(known: Key, value: Any, source: str) -> Any:
    """A value of the right type within its bounds."""
    if known.type is float and isinstance(value, str):  # YAML 1.1 reads 2e-5 as text
        return _parsed(known, value, source)
    if known.type is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if known.choices:
        if value not in known.choices:
            raise ConfigError(f"{source}: {known.name} is one of {', '.join(known.choices)}, not {value!r}")
        return value
    if type(value) is not known.type:
        raise ConfigError(f"{source}: {known.name} is {known.type.__name__}, not {value!r}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        _bounded(known, value, source)
    return value


def _bounded(known: Key, value: float, source: str) -> None:
    if not math.isfinite(value):
        raise ConfigError(f"{source}: {known.name} is a finite number, not {value}")
    if known.low is not None and (value < known.low or (known.above and value == known.low)):
        raise ConfigError(
            f"{source}: {known.name} is {'above' if known.above else 'at least'} {known.low}, not {value}"
        )
    if known.high is not None and value > known.high:
        raise ConfigError(f"{source}: {known.name} is at most {known.high}, not {value}")
