"""What each kind of model is given of a text or of two, and what it says it looked at."""
