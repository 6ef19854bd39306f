"""The commands that `manage.py` finds here by the names of their modules."""
