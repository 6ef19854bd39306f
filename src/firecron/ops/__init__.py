"""For people who look and mend."""
