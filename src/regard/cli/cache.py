"""`regard cache`."""

from typing import Annotated

from cyclopts import Parameter

from regard.cli.output import say, table

Clear = Annotated[
    bool, Parameter(negative="", show_default=False, help="Remove the encoded sets.")
]


def cache(*, clear: Clear = False) -> None:
    """Show the cache of encoded sets, or remove it."""
    from regard.storage import cache_folder

    if clear:
        size = cache_folder.clear()
        return say(f"removed {size:,} bytes from {cache_folder.sets()}")
    say(table(rows()))


def rows() -> dict[str, str]:
    """The folder of the cache, and its sets with their sizes."""
    from regard.storage.cache_folder import contents, sets, size_of

    found = contents()
    total = f"{size_of(sets()):,} bytes in {len(found)} sets"
    return {"cache": str(sets()), "size": total} | {
        each.name: f"{each.size:,} bytes, {each.sources}" for each in found
    }
