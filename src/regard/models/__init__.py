"""Architectures, one readable file each: the configuration and the wiring of the paper."""
