"""Acting in environments that are new each time, and learning about them on the way: bandits, decision processes."""
