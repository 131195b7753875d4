"""Trained runs in the forms of other runtimes, each compared with the run before it is called done."""
