"""Sequences of bits after which something is to be said of them: machines with a tape."""
