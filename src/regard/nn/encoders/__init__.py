"""Encoders: from a padded batch to a `Memory`."""
