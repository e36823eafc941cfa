"""From due to done: the agenda, the loop that works through it, and the callbacks it starts."""
