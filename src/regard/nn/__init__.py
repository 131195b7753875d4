"""Parts of models around attention.

Embeddings, positions, feed-forward, residual and recurrent layers, encoders, decoders.
"""
