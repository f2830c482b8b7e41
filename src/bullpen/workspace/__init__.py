"""The git trees that agents work in: made, kept safe, and brought together. Plain `git`."""
