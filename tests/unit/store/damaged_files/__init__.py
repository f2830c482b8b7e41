"""What the fuzzer found once: damaged files and homes that are none."""
