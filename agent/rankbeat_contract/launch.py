"""How a container starts msrun, read from its command, what is dangerous about it, and the command that mends it.

Source of every rule: docs/sources.md, msrun. What cannot be told from the command (a script, a variable that may hold
options) is unknown, never unsafe.
"""

import re
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from rankbeat_contract import shell

JOIN = "join"
SIGNALS = "signals"
EXIT_CODE = "exitCode"
NODE_RANK = "nodeRank"
FIXES = (JOIN, SIGNALS, EXIT_CODE, NODE_RANK)
"""Traps, by the value of `spec.msrun.fix` that mends each."""

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh"})
WRAPPED = "rankbeat"
"""`$0` of our wrapper: SHELL -c TEXT rankbeat COMMAND..."""
LAUNCHER = "rankbeat_agent/launch.py"
"""What the wrapper's text names, followed by the traps that it mends."""
INDEX = "JOB_COMPLETION_INDEX"
"""Variable that the Job controller gives the containers of an indexed Job's pods."""

_INITS = frozenset({"tini", "tini-static", "dumb-init", "catatonit", "docker-init"})
_PREFIXES = frozenset({"env", "exec", "nohup", "command"})
_KEYWORDS = frozenset({"then", "do", "else", "{", "!", "if", "while", "until", "time"})
_PYTHON = re.compile(r"python[0-9.]*")
_MODULE = "mindspore.parallel.cluster.run"
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_OPTIONS = (
    *("worker_num", "local_worker_num", "master_addr", "master_port", "node_rank", "log_dir", "join"),
    *("cluster_time_out", "bind_core", "bind_numa", "sim_level", "sim_rank_id", "rank_table_file"),
    *("worker_log_name", "tail_worker_log"),
)
"""Of msrun 2.10; each takes a value."""
_WORKERS = 8
"""msrun's default of --worker_num and --local_worker_num."""
_LAUNCHES = re.compile(re.escape(LAUNCHER) + r"\s+([A-Za-z,]+)\s+\"\$@\"")


class Word(NamedTuple):
    """One word of the command line: text[start:end] of element `element` of command and args together.

    value: as the program sees it, with shell.UNKNOWN for each part that only the running shell or kubelet knows.
    """

    element: int
    start: int
    end: int
    value: str


class Launch(NamedTuple):
    """A command that starts msrun.

    msrun: the word after which msrun's options begin. options: the word that holds each option's value.
    is_whole: whether no other option can hide in what is not known. is_shell: whether the words are of a shell's text.
    handled: traps that something else than msrun takes care of: an init, a shell's `trap`, our launcher.
    """

    msrun: Word
    options: Dict[str, Word]
    is_whole: bool
    is_shell: bool
    handled: FrozenSet[str] = frozenset()


def launch(command: Sequence[str]) -> Optional[Launch]:
    """How a container starts msrun, None where its command does not say. command: with its args behind it."""
    words = [Word(index, 0, len(text), shell.expanded_by_kubelet(text)) for index, text in enumerate(command)]
    handled: FrozenSet[str] = frozenset()
    if len(words) > 4 and _is_wrapper(command):
        found = _LAUNCHES.search(command[2])
        handled = frozenset(found[1].split(",")) if found else handled
        words = words[4:]
    if words and _base(words[0].value) in _INITS:
        handled |= {SIGNALS}
        words = _after_init(words)
    if words and _base(words[0].value) in SHELLS:
        return _in_shell(command, words, handled)
    return _started(words, handled, is_shell=False)


def _is_wrapper(command: Sequence[str]) -> bool:
    return _base(command[0]) in SHELLS and command[1] == "-c" and command[3] == WRAPPED


def _after_init(words: Sequence[Word]) -> List[Word]:
    values = [word.value for word in words]
    if "--" in values:
        return list(words[values.index("--") + 1 :])
    number = 1
    while number < len(words) and words[number].value.startswith("-"):
        number += 1
    return list(words[number:])


def _in_shell(command: Sequence[str], words: Sequence[Word], handled: FrozenSet[str]) -> Optional[Launch]:
    """The one msrun in the text of `sh -c TEXT`; None for a script's file, several msruns, or a text beyond us."""
    place = _text_of_shell(words)
    commands = None if place is None else shell.commands(command[place])
    if place is None or commands is None:
        return None
    found = []
    for each in commands:
        line = [Word(place, part.start, part.end, part.value) for part in each]
        if line and line[0].value == "trap":
            handled |= {SIGNALS}
        started = _started(line, handled, is_shell=True)
        if started is not None:
            found.append(started)
    if len(found) != 1:
        return None
    return found[0]._replace(handled=handled)


def _text_of_shell(words: Sequence[Word]) -> Optional[int]:
    """Index of the element after -c."""
    number = 1
    while number < len(words) and words[number].value[:1] in {"-", "+"}:
        option = words[number].value
        if not option.startswith("--") and "c" in option:
            return words[number + 1].element if number + 1 < len(words) else None
        number += 2 if option in {"-o", "+o", "-O", "--rcfile", "--init-file"} else 1
    return None


def _started(words: Sequence[Word], handled: FrozenSet[str], *, is_shell: bool) -> Optional[Launch]:
    """The launch in one simple command."""
    number = 0
    while number < len(words) and _is_before_command(words[number].value, is_shell=is_shell):
        number += 1
    rest = words[number:]
    if not rest:
        return None
    if _base(rest[0].value) == "msrun":
        return _with_options(rest[0], rest[1:], handled, is_shell=is_shell)
    values = [word.value for word in rest[:3]]
    if len(values) == 3 and _PYTHON.fullmatch(_base(values[0])) and values[1:] == ["-m", _MODULE]:
        return _with_options(rest[2], rest[3:], handled, is_shell=is_shell)
    return None


def _is_before_command(value: str, *, is_shell: bool) -> bool:
    is_assignment = bool(_ASSIGNMENT.match(value))
    return is_assignment or _base(value) in _PREFIXES or (is_shell and value in _KEYWORDS)


def _with_options(msrun: Word, words: Sequence[Word], handled: FrozenSet[str], *, is_shell: bool) -> Launch:
    """The options up to the script, by the rules of argparse; the last of a name counts."""
    options: Dict[str, Word] = {}
    number = 0
    while number < len(words) and words[number].value.startswith("-"):
        flag, has_value, _ = words[number].value.partition("=")
        name = _option(flag)
        place = words[number] if has_value else words[number + 1] if number + 1 < len(words) else None
        if name is None or place is None:
            return Launch(msrun, options, False, is_shell, handled)
        options[name] = place
        number += 1 if has_value else 2
    # What stands where the script should, and is not known, may be options: msrun $OPTIONS train.py
    is_whole = number < len(words) and not words[number].value.startswith(shell.UNKNOWN)
    return Launch(msrun, options, is_whole, is_shell, handled)


def _option(flag: str) -> Optional[str]:
    """msrun's option, which argparse lets people abbreviate."""
    wanted = flag[2:]
    if not flag.startswith("--") or not wanted:
        return None
    if wanted in _OPTIONS:
        return wanted
    found = [each for each in _OPTIONS if each.startswith(wanted)]
    return found[0] if len(found) == 1 else None


def _value(launched: Launch, option: str) -> Optional[str]:
    """The option's value, None where it is not given."""
    word = launched.options.get(option)
    if word is None:
        return None
    return word.value.partition("=")[2] if word.value.startswith("--") else word.value


def _workers(launched: Launch, option: str) -> Optional[int]:
    value = _value(launched, option)
    if value is None:
        return _WORKERS if launched.is_whole else None
    return int(value) if value.isdigit() else None


def has_several_nodes(launched: Launch, pods: Optional[int]) -> bool:
    """Whether ranks of more than one pod train together. pods: of the workload at once, None if not known."""
    every, local = _workers(launched, "worker_num"), _workers(launched, "local_worker_num")
    if every is not None and local is not None:
        return every > local
    return pods is not None and pods > 1


def traps(launched: Launch, pods: Optional[int], *, is_process_one: bool = True) -> Tuple[str, ...]:
    """What is dangerous about a launch, in the order of FIXES.

    is_process_one: False where the pod's containers share a process namespace, or use the node's.
    """
    join, node_rank = _value(launched, "join"), _value(launched, "node_rank")
    found = set()
    if join == "False" or (join is None and launched.is_whole):
        found.add(JOIN)
    is_unset = node_rank == "-1" or (node_rank is None and launched.is_whole)
    if is_unset and has_several_nodes(launched, pods):
        found.add(NODE_RANK)
    if is_process_one:
        found.add(SIGNALS)
    found.add(EXIT_CODE)
    return tuple(each for each in FIXES if each in found and each not in launched.handled)


def mended(command: Sequence[str], launched: Launch, fixes: Sequence[str]) -> Tuple[Tuple[int, str], ...]:
    """Changes to a command (with its args behind it) that make msrun join and know its node's rank.

    Each is (index, text): replace the element; or (index, "+text"): put a new element before the one at index.
    Signals and exit code are the launcher's.
    """
    edits = {}
    if JOIN in fixes:
        edits["join"] = "True"
    if NODE_RANK in fixes:
        edits["node_rank"] = f'"${INDEX}"' if launched.is_shell else f"$({INDEX})"
    if launched.is_shell:
        index = launched.msrun.element
        return ((index, _edited(command[index], launched, edits)),) if edits else ()
    changes = []
    for option, value in edits.items():
        word = launched.options.get(option)
        if word is None:
            changes.append((launched.msrun.element + 1, f"+--{option}={value}"))
        else:
            changes.append((word.element, f"--{option}={value}" if word.value.startswith("--") else value))
    return tuple(changes)


def _edited(text: str, launched: Launch, edits: Dict[str, str]) -> str:
    """The shell's text after the edits, made from its end so that places stay right."""
    places = []
    for option, value in edits.items():
        word = launched.options.get(option)
        if word is None:
            places.append((launched.msrun.end, launched.msrun.end, f" --{option}={value}"))
        else:
            places.append((word.start, word.end, f"--{option}={value}" if word.value.startswith("--") else value))
    for start, end, new in sorted(places, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _base(path: str) -> str:
    return path.rpartition("/")[2]
