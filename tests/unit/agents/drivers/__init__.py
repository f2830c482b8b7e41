"""What drivers declare, and what is stored of an agent that one drives."""
