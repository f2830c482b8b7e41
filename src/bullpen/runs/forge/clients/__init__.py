"""Clients of forges. Each implements `ForgeClient` of the contract beside this folder."""
