"""A team of another store mirrored into a home, so that programs that know only files take part."""
