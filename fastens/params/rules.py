"""Validation rules of parameters, and their declaration."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

import numpy as np

from fastens.params.foreign_names import VALUES

# Built-in types come first because isinstance checks of abstract base classes are slower.
_WHOLE = (int, numbers.Integral)
_REAL = (float, int, numbers.Real)


@dataclass(frozen=True)
class Rule:
    """A validation rule: its text for error messages, its test, and a translation of values of other libraries."""

    text: str
    holds: Callable[[Any], bool]
    elsewhere: Callable[[str], str | None] = lambda value: None

    def __or__(self, other: Rule) -> Rule:
        """Return a rule that holds if one of the two rules holds."""
        return Rule(
            f"{self.text} or {other.text}",
            lambda value: self.holds(value) or other.holds(value),
            lambda value: self.elsewhere(value) or other.elsewhere(value),
        )

    def check(self, name: str, value: Any) -> None:
        """Raise ValueError, which names the parameter `name`, if its value violates the rule."""
        if not self.holds(value):
            ours = self.elsewhere(value.lower()) if isinstance(value, str) else None
            raise ValueError(f"{name} must be {self.text}; got {value!r}.{f' Use {ours!r}.' if ours else ''}")


def whole(low: int, high: int | None = None) -> Rule:
    """Return a rule for integers from `low` to `high`, both inclusive; if `high` is None, without a maximum."""
    text = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"

    def holds(value: Any) -> bool:
        is_whole = type(value) is not bool and isinstance(value, _WHOLE)
        return is_whole and low <= int(value) and (high is None or int(value) <= high)

    return Rule(text, holds)


def real(low: float, high: float = math.inf, *, open_low: bool = False, open_high: bool = False) -> Rule:
    """Return a rule for finite numbers from `low` to `high`; `open_low` and `open_high` exclude the limit itself."""
    words = [f"greater than {low}" if open_low else f"at least {low}"]
    if high < math.inf:
        words.append(f"less than {high}" if open_high else f"at most {high}")

    def holds(value: Any) -> bool:
        if type(value) is bool or not isinstance(value, _REAL) or not math.isfinite(value):
            return False
        number = float(value)
        above = number > low if open_low else number >= low
        return above and (number < high if open_high else number <= high)

    return Rule("a number " + " and ".join(words), holds)


def one_of(*options: Any) -> Rule:
    """Return a rule that accepts only values equal to one of `options` and of the same type."""
    text = (
        " or ".join(repr(option) for option in options)
        if len(options) < 3
        else f"one of {', '.join(map(repr, options))}"
    )
    return Rule(
        text,
        lambda value: any(value is option or (type(value) is type(option) and value == option) for option in options),
        lambda value: VALUES.get(value) if VALUES.get(value) in options else None,
    )


def instance(kind: type | tuple[type, ...], text: str) -> Rule:
    """Return a rule that requires an instance of a type; `text` describes the type in errors."""
    return Rule(text, lambda value: isinstance(value, kind))


@contextmanager
def naming_table(name: str) -> Iterator[None]:
    """Prefix ValueErrors raised within the context with "NAME must be a table of rows like X"."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name} must be a table of rows like X: {error}") from error


@dataclass(frozen=True)
class Need:
    """A condition for a parameter to have an effect: another parameter, the text of the condition, and its test."""

    parameter: str
    text: str
    met: Callable[[Any], bool]


def parameter(
    rule: Rule, *, default: Any = MISSING, needs: tuple[Need, ...] = (), elsewhere: str = "", kw_only: Any = MISSING
) -> Any:
    """Declare a parameter as a dataclass field with its rule.

    The parameter may differ from its default only if the conditions in `needs` are met. `elsewhere` has the names of
    an option in other libraries, separated by spaces.
    """
    return field(default=default, kw_only=kw_only, metadata={"rule": rule, "needs": needs, "elsewhere": elsewhere})


def declared(kind: Any, what: str) -> dict[str, Any]:
    """Return {field: metadata} of a dataclass of parameters; `what` is "rule", "needs" or "elsewhere"."""
    return {each.name: each.metadata[what] for each in fields(kind) if each.metadata.get(what)}


def requires(parameter: str, *values: Any) -> tuple[Need]:
    """Return a tuple with one `Need`: a parameter is used only if another, `parameter`, has one of these values."""
    rule = one_of(*values)
    return (Need(parameter, f"{parameter} is {rule.text}", rule.holds),)


NONE = one_of(None)
FLAG = Rule("True or False", lambda value: type(value).__name__ in ("bool", "bool_"))
ANYTHING = Rule("anything", lambda value: True)
FUNCTION = Rule("a function", callable)
ESTIMATOR = Rule("an estimator", lambda value: hasattr(value, "fit") and hasattr(value, "get_params"))
POSITIVE = real(0, open_low=True)
RANDOM_STATE = whole(0, 2**32 - 1) | instance(np.random.RandomState, "a numpy.random.RandomState") | NONE
# Prior probabilities that a node of a tree splits.
PROBABILITY = real(0, 1, open_low=True, open_high=True)
DECLINE = Rule(
    "a pair (a, b) for a (1 + depth)^-b with a between 0 and 1 and b of at least 0",
    lambda value: (
        isinstance(value, tuple | list) and len(value) == 2 and PROBABILITY.holds(value[0]) and real(0).holds(value[1])
    ),
)
SPLIT_PRIOR = one_of("search", "strict", "features") | PROBABILITY | DECLINE
