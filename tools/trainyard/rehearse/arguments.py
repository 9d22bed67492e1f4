"""Command lines changed for a rehearsal: fewer steps, no number formats of GPUs, and what --arg adds."""

import re
import shlex
from collections.abc import Sequence

from trainyard.errors import UsageError
from trainyard.workload.model import Container

_SHELLS = ("sh", "bash", "dash", "ash", "zsh")
_YES = r"(?:True|true|1|yes)"


def lowered(words: Sequence[str], names: Sequence[str], most: int) -> list[str]:
    """Arguments of some names that are larger than a number, made that number: words of their own, or in a script."""
    if not names:
        return list(words)
    changed, script = list(words), _script(words)
    form = re.compile(rf"(?<!\S)({_any_of(names)}(?:=|\s+)['\"]?)(\d+)(?![\w.])")
    for index, word in enumerate(words):
        if _is_one(word, names) and words[index + 1 : index + 2] and words[index + 1].isdecimal():
            changed[index + 1] = str(min(int(words[index + 1]), most))
        elif index == script or word.startswith("-"):
            changed[index] = form.sub(lambda match: f"{match[1]}{min(int(match[2]), most)}", word)
    return changed


def without_flags(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """A command line without flags of some names, or arguments of them that mean yes."""
    kept: list[str] = []
    script, skipped = _script(words), False
    form = re.compile(rf"(?:(?<=\s)|\A){_any_of(names)}(?:(?:=|\s+){_YES})?(?=\s|\Z)")
    for index, word in enumerate(words):
        if skipped:
            skipped = False
            continue
        if _is_one(word, names):
            following = words[index + 1] if index + 1 < len(words) else ""
            if following.lower() in ("false", "0", "no"):
                kept.append(word)
            else:
                skipped = re.fullmatch(_YES, following) is not None
            continue
        if index == script:
            kept.append(form.sub("", word))
        elif not form.fullmatch(word):
            kept.append(word)
    return kept


def appended(words: Sequence[str], container: Container, arguments: Sequence[str]) -> list[str]:
    """A command line with more arguments for the training program. UsageError where its own are not found.

    They stand at the end of the words, or, where a script starts the program, behind its last argument there.
    """
    program = container.launch.program if container.launch is not None else ()
    index = _script(words)
    if index is None:
        return [*words, *arguments]
    text, end = words[index], 0
    for each in program:
        found = text.find(each.text, end)
        if found < 0:
            break
        end = found + len(each.text)
    else:
        if program:
            end += text[end : end + 1] in ("'", '"')
            changed = f"{text[:end]} {shlex.join(arguments)}{text[end:]}"
            return [*words[:index], changed, *words[index + 1 :]]
    raise UsageError(f"--arg {arguments[0]}: where the program's arguments end cannot be told in its script")


def _script(words: Sequence[str]) -> int | None:
    """Where the script of a shell stands among words; None where no shell is started."""
    for index, word in enumerate(words):
        if word.rpartition("/")[2] in _SHELLS:
            options = range(index + 1, len(words) - 1)
            return next((at + 1 for at in options if re.fullmatch(r"-[a-z]*c", words[at])), None)
    return None


def _is_one(word: str, names: Sequence[str]) -> bool:
    return word.startswith("-") and word.lstrip("-").replace("-", "_") in names


def _any_of(names: Sequence[str]) -> str:
    return "--?(?:" + "|".join(re.escape(name).replace("_", "[-_]") for name in names) + ")"
