"""The Realtime Database over REST: the only part of firecron that speaks HTTP to a database."""
