"""What people see of a team, whatever they look at it with: the same facts and the same words."""
