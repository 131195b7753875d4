"""The inputs of each kind of model for a text or a pair, and the attribution of its class to them."""
