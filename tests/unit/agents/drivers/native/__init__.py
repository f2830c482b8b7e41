"""The native driver's choice of model, history and limits."""
