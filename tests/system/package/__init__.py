"""The package, its benchmarks and its tests."""
