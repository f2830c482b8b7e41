"""Who may do what on a NATS server: keys, tenants, roles, and their files.

An operator signs one account per tenant. An account has one signing key per role, and that key
carries the role's rights; the key of a host or person only says its name and its teams.
"""
