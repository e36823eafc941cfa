"""From leased to settled: the jobs in a worker's hands, and those who run them."""
