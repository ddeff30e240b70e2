"""Base of estimators whose parameters are declared as fields and validated by `fit`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cache, wraps
from inspect import Parameter, isfunction, signature, unwrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

from sklearn.base import BaseEstimator
from sklearn.utils._metadata_requests import MetadataRequest, RequestMethod

from fastens.params.docstrings import Docs, complete_docstring, complete_method
from fastens.params.foreign_names import hint, hint_to_attribute, hint_to_predict
from fastens.params.options import Options, options_in
from fastens.params.rules import Need, Rule, declared, parameter
from fastens.warn import warn

# `sklearn.utils.estimator_checks` sets these parameters on every estimator that has them.
_SET_BY_CHECKS = ("n_iter_no_change",)
# Parameters whose current values are used by methods of a fitted model, because they affect nothing but random draws.
_OF_NOW = ("n_jobs", "verbose", "callbacks", "random_state")
_REQUEST = re.compile(r"set_\w+_request")
Kind = TypeVar("Kind", bound=type)


class ChecksParameters(BaseEstimator):
    """An estimator with validation rules for its parameters, which `with_parameters` collects from its fields."""

    _parameter_rules: ClassVar[Mapping[str, Rule]] = {}
    # Conditions of parameters that have an effect only for certain values of another parameter.
    _parameter_needs: ClassVar[Mapping[str, tuple[Need, ...]]] = {}
    # Descriptions of parameters and fitted attributes that several classes share.
    _docs: ClassVar[Docs] = {}
    # Cache: the constructor and the names of its parameters.
    _names_of_parameters: ClassVar[tuple[Any, list[str]]]
    # The values that parameters had during `fit`, if they have been changed since.
    _parameters_of_fit: Mapping[str, Any] = MappingProxyType({})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Complete the docstrings of methods, and add hints to errors about unknown arguments of a constructor."""
        super().__init_subclass__(**kwargs)
        ours = [base for base in cls.__mro__ if base.__module__.startswith("fastens.")]
        documented = [base for base in ours if base is cls or not issubclass(base, ChecksParameters)]
        for value in [value for owner in documented for value in vars(owner).values()]:
            # scikit-learn's `available_if` wraps the method in a descriptor.
            method = value.__func__ if isinstance(value, classmethod) else getattr(value, "fn", value)
            if isfunction(method):
                complete_method(method)
        for name, value in list(vars(cls).items()):
            if isinstance(value, RequestMethod):
                setattr(cls, name, _Request(value.name, value.keys, value.validate_keys))
        if "__init__" in vars(cls):
            cls.__init__ = _with_name_hints(cls.__init__)  # type: ignore[method-assign]

    if not TYPE_CHECKING:  # with `__getattr__`, type checkers would accept every attribute name

        def __getattr__(self, name: str) -> Any:
            # A parameter that the constructor of a subclass does not set has its default. Others raise AttributeError,
            # with a hint for attribute names of other libraries.
            if name in type(self)._parameter_rules:
                return constructor_defaults(self)[name]
            hint = hint_to_attribute(name, type(self))
            if hint:
                text = f"{type(self).__name__!r} object has no attribute {name!r}.{hint}"
                raise AttributeError(text, name=name, obj=self)
            return object.__getattribute__(self, name)  # raises Python's own AttributeError

    def __dir__(self) -> list[str]:
        # Parameters (see `get_params`) and the methods of metadata routing would hide the other attributes.
        hidden = {*self._get_param_names(), *filter(_REQUEST.fullmatch, super().__dir__())}
        return [name for name in super().__dir__() if name not in hidden]

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the names of the constructor's parameters, cached because scikit-learn asks for them in each clone."""
        constructor, names = vars(cls).get("_names_of_parameters", (None, ()))
        if constructor is not cls.__init__:
            constructor, names = cls._names_of_parameters = cls.__init__, super()._get_param_names()
        return list(names)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; if `deep`, nested ones of estimators too, as ``<name>__<parameter>``."""
        return super().get_params(deep)

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata that methods request from scikit-learn's metadata routing."""
        return super().get_metadata_routing()

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including nested ones of estimators and option records as ``<name>__<parameter>``.

        A fitted model keeps predicting with the parameters of its fit; new values take effect in the next `fit`.
        """
        params = self._merge_nested_options(params)
        try:
            with self._setting():
                return super().set_params(**params)
        except ValueError as error:
            parameters = self.get_params()
            unknown = [name for name in (key.partition("__")[0] for key in params) if name not in parameters]
            help_ = _parameter_hint(type(self), unknown[0]) if unknown else ""
            if not help_:
                raise
            raise ValueError(f"{error}{help_}") from None

    @contextmanager
    def _setting(self) -> Iterator[None]:
        """Let parameters be set within the context; a fitted model then records the values used in its `fit`."""
        before = self.get_params(deep=False) if self._is_fitted() else {}
        try:
            yield
        finally:
            before.update(self._parameters_of_fit)
            fit_values = {name: old for name, old in before.items() if name not in _OF_NOW}
            changed = {name: old for name, old in fit_values.items() if getattr(self, name) is not old}
            if changed or self._parameters_of_fit:
                self._parameters_of_fit = changed

    def _is_fitted(self) -> bool:
        """Return True if the estimator is fitted.

        scikit-learn's check reads the tags, which in turn read parameters that may be invalid.
        """
        if hasattr(type(self), "__sklearn_is_fitted__"):
            return bool(self.__sklearn_is_fitted__())
        attributes = vars(self)
        # `n_features_in_` is tested first: scanning all names is slow compared with predicting a row
        return "n_features_in_" in attributes or any(
            name.endswith("_") and not name.startswith("__") for name in list(attributes)
        )

    def __getstate__(self) -> dict[str, Any]:
        # A copy, because other threads may cache attributes while the state is being pickled.
        return dict(super().__getstate__())

    def _as_fitted(self) -> Any:
        """Return the model itself, or a shallow copy with the parameters of its fit if they were changed later."""
        if not self._parameters_of_fit:
            return self
        model = copy(self)
        del model._parameters_of_fit
        model.__dict__.update(self._parameters_of_fit)
        return model

    def _snapshot(self) -> Any:
        """Return a shallow copy with the parameters of the fit; refitting this model does not change the copy."""
        return copy(self._as_fitted())

    def _check_names(self, method: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        """Raise TypeError, with a hint, for the first argument that a method does not have."""
        parameters = signature(method).parameters
        unknown = [name for name in arguments if name not in parameters]
        if unknown and not any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values()):
            name = unknown[0]
            owner: Any = _constructor_owner(type(self), method) if method.__name__ == "__init__" else type(self)
            is_to_predict = method.__name__ not in ("__init__", "fit")
            offered = {*dir(owner), *owner._parameter_rules}
            help_ = hint_to_predict(name, parameters, offered) if is_to_predict else _parameter_hint(owner, name)
            where = f"{owner.__name__}.{method.__name__}()"
            raise TypeError(f"{where} got an unexpected keyword argument {name!r}.{help_}")

    def _merge_nested_options(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return `params` with keys such as "growth__max_depth" merged into new option records.

        Nested keys of estimators are kept. Raises ValueError if a nested key belongs to neither.
        """
        nested: dict[str, dict[str, Any]] = {}
        merged = dict(params)
        all_params = self.get_params() | params if any("__" in key for key in params) else params
        for key in params:
            parameter, _, option = key.partition("__")
            if not option or parameter not in all_params:
                continue
            value = all_params[parameter]
            if options_in(parameter, value) is not None:
                nested.setdefault(parameter, {})[option] = merged.pop(key)
            elif not hasattr(value, "set_params"):
                is_estimator = parameter.endswith("estimator") or not hasattr(self, parameter)  # named estimators
                is_short = isinstance(value, bool | str)
                needed = "be an estimator" if is_estimator else "be a record" if is_short else "have parameters"
                raise ValueError(f"{parameter} must {needed} to set {key}; got {value!r}.")
        for parameter, options in nested.items():
            merged[parameter] = options_in(parameter, all_params[parameter]).replaced(options)
        return merged

    def _every_parameter(self) -> dict[str, Any]:
        """Return all parameters by name, also inherited ones that are not in the subclass's own constructor."""
        return {name: getattr(self, name) for name in self._parameter_rules} | self.get_params(deep=False)

    def _options(self, parameter: str) -> Any:
        """Return the option record that the named parameter holds or is shorthand for; None if it is neither."""
        return options_in(parameter, getattr(self, parameter))

    def _check_parameters(self) -> None:
        """Raise ValueError for parameters that violate their rules or exclude each other; skip default values."""
        defaults = constructor_defaults(self)
        for name, rule in self._parameter_rules.items():
            value = getattr(self, name)
            if name not in defaults or value is not defaults[name]:
                rule.check(name, value)
            if isinstance(value, Options):
                value.check(name)
        self._validate_combinations()

    def _validate_combinations(self) -> None:
        """Raise ValueError for parameters that exclude each other; called after the values have been checked."""

    def _check_ignored_parameters(self) -> None:
        """Raise ValueError for a non-default parameter that the fit would ignore because of another parameter."""
        for name, needs in self._parameter_needs.items():
            if self._is_default(name):
                continue
            value, default = getattr(self, name), constructor_defaults(self)[name]
            for need in needs:
                other = getattr(self, need.parameter, None)
                if not need.met(other):
                    self._reject_ignored(
                        name,
                        f"{name} must be {default!r} with {need.parameter}={other!r}, because it is used only "
                        f"if {need.text}; got {value!r}.",
                    )

    def _reject_ignored(self, name: str, text: str) -> None:
        """Raise ValueError with `text` for the ignored parameter `name`; only warn if scikit-learn's checks set it."""
        if name not in _SET_BY_CHECKS:
            raise ValueError(text)
        warn(text)

    def _is_default(self, name: str) -> bool:
        """Return True if the parameter with this name has its default value."""
        value, default = getattr(self, name), constructor_defaults(self)[name]
        return value is default or (isinstance(value, type(default)) and bool(value == default))


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter, field))
def with_parameters(kind: Kind) -> Kind:
    """Turn the annotated attributes of a class, and of its decorated bases, into parameters of its constructor.

    In the docstring, ``{parameters}`` and ``{attributes}`` are replaced by the entries of the table `_docs`.
    """
    made: Any = dataclass(kind, init=True, repr=False, eq=False, kw_only=True)
    made.__init__ = _with_name_hints(made.__init__)
    for name in declared(made, "rule").keys() & vars(made).keys():
        delattr(made, name)  # parameters are attributes of instances; help() would list each a second time
    made._parameter_rules = {**getattr(made, "_parameter_rules", {}), **declared(made, "rule")}
    made._parameter_needs = {**getattr(made, "_parameter_needs", {}), **declared(made, "needs")}
    complete_docstring(made, getattr(made, "_docs", {}))
    return made


class _Request(RequestMethod):
    """A ``set_..._request`` method of scikit-learn with a short docstring; the original has 35 lines for each."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        method = super().__get__(instance, owner)
        method.__doc__ = f"Choose which metadata scikit-learn's metadata routing passes to `{self.name}`."
        return method


def constructor_defaults(model: Any) -> dict[str, Any]:
    """Return the default values of an estimator's constructor parameters by name."""
    kind: Any = type(model)
    return _class_defaults(kind)


@cache
def _class_defaults(kind: Any) -> dict[str, Any]:
    # The constructor of a subclass may have fewer parameters; the others keep the defaults of its base.
    """Return the default values of the constructor parameters of a class and its bases by name."""
    constructors = [base.__init__ for base in reversed(kind.__mro__) if "__init__" in vars(base)]
    parameters = [each for method in constructors for each in signature(method).parameters.values()]
    return {each.name: each.default for each in parameters if each.default is not Parameter.empty}


@cache
def _parameter_names(kind: type, method: str) -> tuple[str, ...]:
    """Return the names of the parameters of a class's method, without self; () if it has no such method."""
    return tuple(signature(getattr(kind, method)).parameters)[1:] if hasattr(kind, method) else ()


def _constructor_owner(kind: type, method: Callable[..., Any]) -> type:
    """Return the class or base class whose constructor is `method`, because subclasses call their base's."""
    bases = (base for base in kind.__mro__ if "__init__" in vars(base) and unwrap(vars(base)["__init__"]) is method)
    return next(bases, kind)


def _parameter_hint(kind: type, name: str) -> str:
    """Return a hint for an unknown parameter of a class or of its `fit`: a sentence after a space, or ""."""
    return hint(name, _parameter_names(kind, "fit"), _parameter_names(kind, "__init__"))


def _with_name_hints(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a constructor so that its TypeError for an unknown argument has a hint."""
    parameters = signature(method).parameters
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values()):
        return method

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not parameters.keys() >= kwargs.keys():
            self._check_names(method, kwargs)
        return method(self, *args, **kwargs)

    return call
