"""A shell's text in words, checked against the shells themselves."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbeat_contract import shell

PIECES = st.lists(
    st.sampled_from(
        [
            "a",
            "b=1",
            " ",
            "'",
            '"',
            "\\",
            "\n",
            "$X",
            "${X:-a b}",
            "$(id)",
            "`id`",
            ";",
            "&&",
            "|",
            ">f",
            "2>&1",
            "#",
            "é",
        ]
    ),
    max_size=12,
).map("".join)

QUOTED = [
    "a 'b c' d",
    'a "b c" "d\\"e"',
    "a b\\ c",
    "a \\\n b",
    "a b'c'\"d\"e",
    "a 'it'\\''s'",
    'a "b\\c" "\\\\"',
    "a ''",
    "a 'x\ny'",
    "a b#c # not this",
]


@given(PIECES)
def test_any_text_gives_words_of_the_text_or_nothing(text):
    for command in shell.commands(text) or ():
        for part in command:
            assert 0 <= part.start < part.end <= len(text)


@pytest.mark.parametrize("text", QUOTED)
@pytest.mark.parametrize("program", ["dash", "bash"])
def test_words_are_those_that_a_shell_sees(program, text):
    found = shutil.which(program)
    assert found is not None
    script = 'a() { printf "%s\\0" a "$@"; }; ' + text
    seen = subprocess.run([found, "-c", script], capture_output=True, text=True, check=True, timeout=20).stdout

    (command,) = shell.commands(text)

    assert [part.value for part in command] == seen.split("\0")[:-1]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a; b && c || d | e & f\n(g)", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a > f 2>&1 < g b", [["a", "b"]]),
        ("a &> f b >> g", [["a", "b"]]),
        ('a "$(b "c)" d)" `e f` ${g:-"h}"}', [["a", "\0", "\0", "\0"]]),
        ("a $", [["a", "$"]]),
    ],
)
def test_operators_and_redirections_part_words(text, commands):
    assert [[part.value for part in command] for command in shell.commands(text)] == commands


@pytest.mark.parametrize("text", ["a 'b", 'a "b', "a $(b", "a `b", "a <<E\nb\nE"])
def test_what_is_beyond_it_is_nothing(text):
    assert shell.commands(text) is None
