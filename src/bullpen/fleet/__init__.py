"""Teams on several machines: the servers, their keys, and the hosts."""
