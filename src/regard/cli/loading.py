"""Loading without garbage collection."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Pause the garbage collector while modules and a run are loaded, and exclude the loaded objects from later
    collections: scanning all of PyTorch's objects takes longer than a prediction."""
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if searching:
            gc.enable()
