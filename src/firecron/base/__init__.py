"""Tools that know no lock, no job and no database."""
