"""Tools that know no lock, job or database."""
