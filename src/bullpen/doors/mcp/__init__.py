"""The door for programs that connect to us: a team over the Model Context Protocol."""
