"""Search: from a decoder and a memory to sequences.

Decoders are used only through their protocol.
"""
