"""The real clients, asked offline: `make clients`."""
