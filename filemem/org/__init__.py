"""The memories of an organisation's repositories in one database: a worker brings them in, a service answers."""
