"""Encoders: a padded batch in, a `Memory` out."""
