"""What is harmless on a command line, for each program that Bullpen knows."""
