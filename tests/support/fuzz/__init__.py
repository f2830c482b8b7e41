"""The fuzzer: damaged files, nasty command lines, odd environments. Deterministic by seed.

    pytest tests/chaos/fuzz                            # 10,000 cases, the seed of every CI run
    BULLPEN_FUZZ_CASES=100000 pytest tests/chaos/fuzz  # longer
    BULLPEN_FUZZ_SEED=$RANDOM pytest tests/chaos/fuzz  # other cases; the seed is printed
    BULLPEN_FUZZ_ONLY=files:1234 pytest tests/chaos/fuzz     # one case again (or arguments:1234)
    BULLPEN_FUZZ_SAVE=DIR pytest tests/chaos/fuzz      # where failed cases are kept

Seven in ten cases damage the files of a team and work with it; the others run command lines. A
case depends on the seed and its own number alone. What a failed case did is in the failure, and
what it had damaged lies in the folder that the failure names.
"""
