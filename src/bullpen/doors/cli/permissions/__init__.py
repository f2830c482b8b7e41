"""Commands about permissions: requests, approve, deny, policy, trust."""
