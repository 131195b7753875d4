"""Predictions for large inputs: files cut into parts, which any number of processes compute and a restart continues."""
