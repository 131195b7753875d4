"""Decoders behind one protocol: decoding uses only `start`, `step` and the state's `select`."""
