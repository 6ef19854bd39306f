"""The HTTP face of the database: REST, streams, and the faults that tests ask for."""
