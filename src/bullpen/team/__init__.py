"""What a team may do."""
