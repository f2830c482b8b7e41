"""Public: contract suites for stores, drivers and backends, and mock models to test them with."""
