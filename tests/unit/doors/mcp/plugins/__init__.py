"""The plugin for Claude Code and the extension for Gemini CLI."""
