"""All that knows other programs: the files and hooks of coding agents, and whether they are ready.

Rule: in a file that others write too, only our own part is read, changed or removed.
"""
