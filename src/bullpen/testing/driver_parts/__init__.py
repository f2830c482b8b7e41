"""Promises of the driver contract that `DriverContract` takes over: idle times and mail."""
