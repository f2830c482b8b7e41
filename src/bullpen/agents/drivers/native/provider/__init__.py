"""Where a model is and what it is: libraries, servers that tell its window, and prices."""
