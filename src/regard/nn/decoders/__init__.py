"""Decoders: one protocol, of which decoding knows nothing but `start`, `step` and the state's `select`."""
