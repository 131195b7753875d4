"""Image captioning, with the attention of each word to places of the image."""
