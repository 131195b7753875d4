"""What can be learned. One package a task: its run file, its loss and validation, and a trained run of it, opened."""
