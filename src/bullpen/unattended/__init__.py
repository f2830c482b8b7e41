"""A team on its way to its end while nobody looks: watched, kept going, merged, summed up."""
