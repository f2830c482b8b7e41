"""Makes suites: of tasks for other benchmarks, and of a repository's own commits."""
