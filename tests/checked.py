"""Checks of shapes and types in regard's signatures at every call, installed before regard is imported.

jaxtyping checks that sizes of the same name agree within a call, and binds the arguments to the signature for it, which
takes ten times as long as most of the functions. So it is for functions with shapes; beartype alone checks the others.
"""

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf, beartype

CHECKER = "beartype.beartype"
# TypeError is what jaxtyping raises, and what regard's own checks do.
types_checked: Callable[[Any], Any] = beartype(conf=BeartypeConf(violation_type=TypeError))


def install(package: str) -> None:
    """Have every function and dataclass of a package checked."""
    jaxtyping.jaxtyped = partial(checked, jaxtyping.jaxtyped)  # the name that the hook's decorators call
    jaxtyping.install_import_hook(package, CHECKER)


def checked(shapes_checked: Callable[..., Any], function: Any = None, *, typechecker: Callable[[Any], Any]) -> Any:
    """A function or class with its checks; without one, the decorator."""
    if function is None:
        return partial(checked, shapes_checked, typechecker=typechecker)
    inner = function.__init__ if dataclasses.is_dataclass(function) else function
    if inspect.isclass(inner) or any(map(has_shapes, getattr(inner, "__annotations__", {}).values())):
        return shapes_checked(function, typechecker=typechecker)
    if inner is not function:
        function.__init__ = types_checked(inner)
        return function
    within = "<locals>" in getattr(function, "__qualname__", "")  # it would be decorated anew at every call
    return function if within else types_checked(function)


def has_shapes(hint: Any) -> bool:
    """Whether an annotation has shapes somewhere within; one in quotes, which only jaxtyping resolves, may have."""
    if isinstance(hint, str):
        return True
    return (isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)) or any(
        map(has_shapes, get_args(hint))
    )
