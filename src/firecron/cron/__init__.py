"""Cron lines and schedules: when a job's ticks are."""
