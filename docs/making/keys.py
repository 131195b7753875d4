"""`python -m docs.making.keys` writes the stored schema of run files."""

from pathlib import Path

from regard.config.schema import written
from regard.runs import keys

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "src" / "regard" / "runs" / keys.FILE


def main() -> None:
    """Write the files."""
    SCHEMA.write_text(written(keys.described()), encoding="utf-8")


if __name__ == "__main__":
    main()
