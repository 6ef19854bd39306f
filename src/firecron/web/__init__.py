"""Web: what the triggers and the page share, one request, one reply and one door for each kind of framework."""
