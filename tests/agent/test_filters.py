"""Which values a filter keeps."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbeat_agent.hooks import filters

VALUES = (-2.0, 0.0, 0.5, 1.0, 3.0, math.inf, math.nan)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("value > 1e-3", (0.5, 1.0, 3.0, math.inf)),
        ("loss <= 0.5", (-2.0, 0.0, 0.5)),
        ("value == 1", (1.0,)),
        ("value >= -2 and value < .5", (-2.0, 0.0)),
        ("value < 0 or value > 1 and value < 1e9", (-2.0, 3.0)),
        ("(value < 0 or value > 1) and value < 1e9", (-2.0, 3.0)),
        ("not value > 0", (-2.0, 0.0, math.nan)),
        ("not (value > 0 or value < 0)", (0.0, math.nan)),
        ("1 < value", (3.0, math.inf)),
        ("-value > 1", (-2.0,)),
    ],
)
def test_an_expression_keeps_what_it_says(text, kept):
    keeps = filters.compiled(text, "loss")

    assert repr(tuple(value for value in VALUES if keeps(value))) == repr(kept)


def test_only_a_value_that_is_no_number_is_unequal_to_itself():
    keeps = filters.compiled("value != value", "loss")

    assert [keeps(value) for value in VALUES] == [False] * 6 + [True]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "its end stands where value, loss or a number should"),
        ("value", "its end stands where one of < <= > >= == != should"),
        ("value > ", "its end stands where value, loss or a number"),
        ("value > 1 value", "'value' stands where and, or or the end should"),
        ("(value > 1", "its end stands where a closing parenthesis"),
        ("grad_norm > 1", "'grad_norm' stands where value, loss or a number"),
        ("value > and", "'and' stands where value"),
        ("__import__('os').system('id')", "is no part of an expression"),
        ("system(1)", "'system' stands where value"),
        ("(" * 40 + "value > 1" + ")" * 40, "nested deeper than 32"),
        ("value > 1; value", "';"),
        ("value > 1" + " or value > 1" * 20, "filter of 269 characters, 256 is the most"),
    ],
)
def test_what_is_no_expression_is_refused_and_says_where(text, reason):
    with pytest.raises(ValueError, match=r".") as refused:
        filters.compiled(text, "loss")

    assert reason in str(refused.value)


@given(st.text(alphabet="value<>=!()andornt 0123456789.e-", max_size=60))
def test_any_text_is_an_expression_or_refused_and_never_anything_else(text):
    try:
        keeps = filters.compiled(text, "loss")
    except ValueError:
        return
    assert keeps(1.0) in (True, False)
