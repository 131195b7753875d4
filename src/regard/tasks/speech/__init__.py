"""Speech recognition, with the attention of each letter to times of the sound."""
