"""Parts of models around attention: embeddings, positions, feed-forward, residual and recurrent layers, encoders,
decoders."""
