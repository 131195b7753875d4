"""The version of regard, the same as in pyproject.toml."""

VERSION = "0.1.0"
