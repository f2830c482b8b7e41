"""`bullpen acp`, driven by clients of the protocol."""
