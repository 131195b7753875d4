"""Run files.

YAML becomes frozen dataclasses, and names become the classes that they stand for.
"""
