"""What stands around attention in a model: embeddings, positions, feed-forward, residual and recurrent layers."""
