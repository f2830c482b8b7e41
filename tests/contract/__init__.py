"""The shipped contract suites on stores, backends and drivers that need a server or a process."""
