"""The notes of a team: its plan and other shared texts, and who may write over which version."""
