"""Forms: the inputs of each kind of model, and the attribution of the class to them."""
