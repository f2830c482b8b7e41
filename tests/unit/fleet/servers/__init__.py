"""Configurations, alarms and backups of servers."""
