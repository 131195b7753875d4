"""Architectures, one readable file each.

The configuration and the wiring of the paper.
"""
