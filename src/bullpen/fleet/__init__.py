"""Teams that span machines: the servers they are kept on, who may do what there, and the hosts."""
