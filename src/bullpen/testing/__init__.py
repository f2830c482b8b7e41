"""Public: contract suites for stores, drivers, backends and tools, and mock models for tests."""
