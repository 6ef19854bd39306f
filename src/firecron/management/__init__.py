"""What Django looks for in an application: its commands. In `INSTALLED_APPS`, firecron is one."""
