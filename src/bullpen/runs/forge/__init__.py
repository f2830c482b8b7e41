"""Issues in, pull requests out: what carries a team's work to a forge and brings its words back."""
