"""Cron lines and schedules: when the ticks of a job are."""
