"""Checks of shapes and types in regard's signatures at every call, installed before regard is imported.

jaxtyping checks that sizes of the same name agree within a call, and binds the arguments to the signature for it, which
takes ten times as long as most of the functions. So it is for functions with shapes; beartype alone checks the others.
What jaxtyping finds depends on the types and shapes of a call alone: a function is checked once for each.
"""

import dataclasses
import inspect
from collections.abc import Callable, Hashable, Iterable
from functools import cache, partial, update_wrapper
from threading import get_ident
from types import FunctionType
from typing import Any, get_args

import jaxtyping
import numpy as np
import torch
from beartype import BeartypeConf, beartype

CHECKER = "beartype.beartype"
# TypeError is what jaxtyping raises, and what regard's own checks do.
types_checked: Callable[[Any], Any] = beartype(conf=BeartypeConf(violation_type=TypeError))


FOUND: dict[Hashable, dict[Hashable, set[Hashable]]] = {}  # of each function: results by arguments, found right


def install(package: str) -> None:
    """Have every function and dataclass of a package checked."""
    jaxtyping.jaxtyped = partial(checked, jaxtyping.jaxtyped)  # the name that the hook's decorators call
    jaxtyping.install_import_hook(package, CHECKER)


def checked(shapes_checked: Callable[..., Any], function: Any = None, *, typechecker: Callable[[Any], Any]) -> Any:
    """A function or class with its checks; without one, the decorator."""
    if function is None:
        return partial(checked, shapes_checked, typechecker=typechecker)
    inner: Any = function.__init__ if dataclasses.is_dataclass(function) else function
    shaped = any(map(has_shapes, getattr(inner, "__annotations__", {}).values()))
    if shaped and inspect.isfunction(inner):
        check = partial(once_for_each_form, shapes_checked=partial(shapes_checked, typechecker=typechecker))
    elif shaped or inspect.isclass(inner):
        return shapes_checked(function, typechecker=typechecker)
    elif inner is function and "<locals>" in getattr(function, "__qualname__", ""):
        return function  # it would be decorated anew at every call
    else:
        check = types_checked
    if inner is function:
        return check(function)
    function.__init__ = check(inner)
    return function


def has_shapes(hint: Any) -> bool:
    """Whether an annotation has shapes somewhere within; one in quotes, which only jaxtyping resolves, may have."""
    if isinstance(hint, str):
        return True
    return (isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)) or any(
        map(has_shapes, get_args(hint))
    )


def once_for_each_form(function: Any, shapes_checked: Callable[[Any], Any]) -> Any:
    """A function whose arguments and result are checked where a call has types and shapes of no earlier one."""
    # a function within another is made anew at every call of that
    found = FOUND.setdefault((function.__module__, function.__code__), {})
    results: dict[int, Any] = {}  # those to be checked, of each thread
    thread = get_ident

    def compute(*arguments: Any, **named: Any) -> Any:
        key = thread()
        return results.pop(key) if key in results else function(*arguments, **named)

    def call(*arguments: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*arguments, **named)
        key = (*map(form, arguments), form(named)) if named else tuple(map(form, arguments))
        known = found.get(key)
        if known is None:
            result = make_checks()(*arguments, **named)
            found[key] = {form(result)}
            return result
        result = function(*arguments, **named)
        if (formed := form(result)) not in known:
            results[thread()] = result
            make_checks()(*arguments, **named)
            known.add(formed)
        return result

    @cache  # made at the first call: most of what is imported is called by few tests
    def make_checks() -> Callable[..., Any]:
        # jaxtyping resolves names of annotations in a function's globals
        there = FunctionType(compute.__code__, function.__globals__, function.__name__, None, compute.__closure__)
        return shapes_checked(update_wrapper(there, function))

    return update_wrapper(call, function)


def form(value: Any) -> Hashable:
    """All of a value that its check depends on."""
    kind = type(value)
    if kind is torch.Tensor:
        return kind, value.dtype, value.shape
    what = FORMS[kind]
    return kind if what is None else (kind, *what(value))


class Forms(dict[type, Callable[[Any], Iterable[Hashable]] | None]):
    """What checks depend on beside the type, of values of each type; None where that is nothing."""

    def __missing__(self, kind: type) -> Callable[[Any], Iterable[Hashable]] | None:
        ways: dict[Any, Callable[[Any], Iterable[Hashable]]] = {
            (torch.Tensor, np.ndarray): lambda value: (value.dtype, value.shape),
            (tuple, list): partial(map, form),
            dict: lambda value: [(form(key), form(each)) for key, each in value.items()],
            (set, frozenset): lambda value: [frozenset(map(form, value))],
            (bool, int, str, type): lambda value: [value],
        }
        return self.setdefault(kind, next((way for kinds, way in ways.items() if issubclass(kind, kinds)), None))


FORMS = Forms()
