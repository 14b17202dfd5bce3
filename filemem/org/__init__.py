"""The index of an organisation: many repositories' records in one PostgreSQL, and the service that answers from it."""
