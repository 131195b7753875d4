"""How long sequences may be."""

from collections.abc import Sequence

from regard.errors import InputError


def limit_lengths(
    sequences: Sequence[list[int]], maximum: int, places: Sequence[str], *, truncate: bool = False
) -> tuple[list[list[int]], int]:
    """The sequences, none longer than `maximum` ids, and how many had to be cut.

    Raises InputError naming the first place whose sequence is longer, unless `truncate` asks to keep its beginning.
    """
    cut = 0
    limited = []
    for ids, place in zip(sequences, places, strict=True):
        if len(ids) > maximum:
            if not truncate:
                raise InputError(
                    f"{place}: {len(ids)} tokens, more than the model's maximum of {maximum}; shorten it or truncate"
                )
            cut += 1
        limited.append(ids[:maximum])
    return limited, cut
