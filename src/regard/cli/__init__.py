"""The commands. What they need beyond the standard library is imported when one runs, so that `--help` is quick."""
