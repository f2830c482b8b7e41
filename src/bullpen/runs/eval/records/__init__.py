"""What an eval keeps on disk: its files, and what each attempt at a trial may cost."""
