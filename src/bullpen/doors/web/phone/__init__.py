"""What reaches a phone: the pages of links that answer, and the subscription to pushes."""
