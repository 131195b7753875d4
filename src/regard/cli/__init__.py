"""The commands.

Each imports its dependencies when it runs, so that `--help` is quick.
"""
