"""What the dialects of SQL do alike: units of work, reads and lists, in terms of named statements.

Each dialect has its own text for a statement, in its ``queries.sql``; here is what they are asked
for and what their rows mean. On a server a session awaits. On a file it never does, so a thread can
run the same coroutines to their end.
"""
