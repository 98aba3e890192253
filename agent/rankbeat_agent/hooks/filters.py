"""Which values of a metric are kept: a small expression, parsed by hand into closures, never evaluated as code.

    expression  both {"or" both}
    both        one {"and" one}
    one         "not" one | "(" expression ")" | test
    test        operand ("<" | "<=" | ">" | ">=" | "==" | "!=") operand
    operand     ["-"] ("value" | the metric's own name | number)

A NaN is unequal to everything, itself included, and neither smaller nor larger: `value != value` keeps only NaN.
"""

import operator as operations
import re
from typing import Callable, List

Filter = Callable[[float], bool]
MAX_CHARACTERS = 256
MAX_DEPTH = 32
_TOKEN = re.compile(r"\s*(?:[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?|[A-Za-z_][A-Za-z0-9_]*|<=|>=|==|!=|[<>()-])")
_TESTS = {
    "<": operations.lt,
    "<=": operations.le,
    ">": operations.gt,
    ">=": operations.ge,
    "==": operations.eq,
    "!=": operations.ne,
}
_WORDS = ("and", "or", "not")


def _tokens(text: str) -> List[str]:
    found, at = [], 0
    text = text.rstrip()
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"filter of {len(text)} characters, {MAX_CHARACTERS} is the most")
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"filter {text!r}: {text[at:].strip()[:10]!r} is no part of an expression")
        found.append(match.group().strip())
        at = match.end()
    return found


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.tokens = _tokens(text)
        if sum(token in ("(", "not") for token in self.tokens) > MAX_DEPTH:
            raise ValueError(f"filter {text!r}: nested deeper than {MAX_DEPTH}")

    def fails(self, wanted: str) -> ValueError:
        there = repr(self.tokens[0]) if self.tokens else "its end"
        return ValueError(f"filter {self.text!r}: {there} stands where {wanted} should, write for example value > 1e-3")

    def takes(self, token: str) -> bool:
        """Whether token is next; if so, it is taken."""
        if self.tokens[:1] != [token]:
            return False
        del self.tokens[0]
        return True

    def either(self) -> Filter:
        terms = [self.both()]
        while self.takes("or"):
            terms.append(self.both())
        return terms[0] if len(terms) == 1 else lambda value: any(term(value) for term in terms)

    def both(self) -> Filter:
        terms = [self.one()]
        while self.takes("and"):
            terms.append(self.one())
        return terms[0] if len(terms) == 1 else lambda value: all(term(value) for term in terms)

    def one(self) -> Filter:
        if self.takes("not"):
            inner = self.one()
            return lambda value: not inner(value)
        if self.takes("("):
            inner = self.either()
            if not self.takes(")"):
                raise self.fails("a closing parenthesis")
            return inner
        return self.test()

    def test(self) -> Filter:
        left = self.operand()
        test = _TESTS.get(self.tokens[0]) if self.tokens else None
        if test is None:
            raise self.fails("one of < <= > >= == !=")
        del self.tokens[0]
        right = self.operand()
        return lambda value: test(left(value), right(value))

    def operand(self) -> Callable[[float], float]:
        is_negative = self.takes("-")
        token = self.tokens.pop(0) if self.tokens else ""
        if token in ("value", self.name):
            return (lambda value: -value) if is_negative else (lambda value: value)
        if not token or token in _WORDS or not (token[0].isdigit() or token[0] == "."):
            self.tokens[:0] = [token] if token else []
            raise self.fails(f"value, {self.name} or a number")
        number = -float(token) if is_negative else float(token)
        return lambda _value: number


def compiled(text: str, name: str) -> Filter:
    """Whether to keep a value of the metric called name.

    Raises: ValueError if text is no expression.
    """
    parser = _Parser(text, name)
    kept = parser.either()
    if parser.tokens:
        raise parser.fails("and, or or the end")
    return kept
