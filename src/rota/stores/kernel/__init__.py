"""The rules of a job store, written once: plans that a backend runs as units of work.

A backend answers the queries of a plan, commits its writes, and wakes listeners. It may also have
native paths for frequent cases: the lease of due jobs, the insertion of plain new jobs and the
completion of plain jobs. Each gives the same result as the kernel. A store with native paths has an
attribute ``uses_native_paths``; with False the kernel does all that it can do, and the contract
tests compare both.
"""
