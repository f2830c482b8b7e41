"""Who may do what on a NATS server: keys, tenants, roles, and the files that keep them.

An operator signs one account per tenant. An account has one signing key per role, and the key
carries what the role may do; what a host or a person holds says only its name and its teams.
"""
