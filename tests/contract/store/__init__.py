"""The store on NATS keeps the store contract."""
