"""What every estimator does with its parameters: the rules they keep, what they are read with, unknown names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, wraps
from inspect import Parameter, signature
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from fastens.foreign_names import hint
from fastens.parameters import Need, Rule
from fastens.warn import warn

# What `sklearn.utils.estimator_checks` sets on every estimator that has such a parameter.
_SET_BY_CHECKS = ("alpha", "n_iter_no_change")


class ChecksParameters(BaseEstimator):
    """An estimator whose parameters have rules.

    A subclass declares `_parameter_rules`, and in `_parameter_needs` the parameters that are read only where another
    has certain values.
    """

    _parameter_rules: ClassVar[Mapping[str, Rule]] = {}
    _parameter_needs: ClassVar[Mapping[str, tuple[Need, ...]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let errors of unknown names say what is meant."""
        super().__init_subclass__(**kwargs)
        for name in ("__init__", "fit"):
            if name in vars(cls):
                setattr(cls, name, _knowing_names(vars(cls)[name]))

    def set_params(self, **params: Any) -> Any:
        """Set parameters, also of nested estimators as ``<part>__<parameter>``; return the estimator itself.

        Parameters
        ----------
        **params
            Parameters and their values.

        Raises
        ------
        ValueError
            For names that there are not.
        """
        try:
            return super().set_params(**params)
        except ValueError as error:
            known = self.get_params(deep=False)
            unknown = [name for name in params if "__" not in name and name not in known]
            help_ = _hint(type(self), unknown[0]) if unknown else ""
            if not help_:
                raise
            raise ValueError(f"{error}{help_}") from None

    def _keep_parameters(self, parameters: dict[str, Any]) -> None:
        """Take the arguments of `__init__`, its `locals()`, as attributes."""
        self.__dict__.update({name: value for name, value in parameters.items() if name != "self"})

    def _check_parameters(self) -> None:
        """Raise ValueError for the first parameter that breaks its rule; defaults break none."""
        defaults = constructor_defaults(self)
        for name, rule in self._parameter_rules.items():
            value = getattr(self, name)
            if name not in defaults or value is not defaults[name]:
                rule.check(name, value)

    def _check_all_read(self) -> None:
        """Raise ValueError, or warn, for parameters of a fit that would be ignored."""
        for name, needs in self._parameter_needs.items():
            if not self._is_default(name):
                self._check_read(name, needs)

    def _not_read(self, name: str, text: str) -> None:
        """Raise ValueError for a parameter that would be ignored, or warn if scikit-learn's checks set it."""
        if name not in _SET_BY_CHECKS:
            raise ValueError(text)
        warn(text)

    def _is_default(self, name: str) -> bool:
        """Whether a parameter has the value that it has unless another is given."""
        value, default = getattr(self, name), constructor_defaults(self)[name]
        return value is default or (isinstance(value, type(default)) and bool(value == default))

    def _check_read(self, name: str, needs: tuple[Need, ...]) -> None:
        value, default = getattr(self, name), constructor_defaults(self)[name]
        for need in needs:
            other = getattr(self, need.parameter, None)
            if not need.met(other):
                self._not_read(
                    name,
                    f"{name} is read where {need.text}, and must be {default!r} with {need.parameter}={other!r}; "
                    f"got {value!r}.",
                )


def constructor_defaults(model: Any) -> dict[str, Any]:
    """The defaults of the parameters of an estimator's constructor."""
    kind: Any = type(model)
    return _defaults_of(kind)


@cache
def _defaults_of(kind: Any) -> dict[str, Any]:
    found = signature(kind.__init__).parameters.values()
    return {each.name: each.default for each in found if each.default is not Parameter.empty}


@cache
def _names(kind: type, method: str) -> tuple[str, ...]:
    """The parameters of a method."""
    return tuple(signature(getattr(kind, method)).parameters)[1:] if hasattr(kind, method) else ()


def _hint(kind: type, name: str) -> str:
    return hint(name, _names(kind, "fit"), _names(kind, "__init__"))


def _knowing_names(method: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor or `fit` whose TypeError for an unknown name says what is meant."""
    parameters = signature(method).parameters
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values()):
        return method

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in parameters:
                where = f"{type(self).__name__}.{method.__name__}()"
                raise TypeError(f"{where} got an unexpected keyword argument {name!r}.{_hint(type(self), name)}")
        return method(self, *args, **kwargs)

    return call
