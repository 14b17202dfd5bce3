"""HTTP beside MCP: the routes of MAMA and mem-claude, a page for people, and what it asks for.

`site.Site` is what the command line hands to the server; importing this package costs nothing.
"""
