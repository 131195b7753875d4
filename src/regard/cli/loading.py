"""Loading what a command needs, in a fraction of the time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Nothing looks for garbage while modules and a run are loaded, nor later among what has come by then, which stays:
    to look through all that PyTorch brings again and again, and once more at the end, takes longer than an answer."""
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if searching:
            gc.enable()
