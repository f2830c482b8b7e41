"""Commands about teams: team, member, send, inbox, events, doctor."""
