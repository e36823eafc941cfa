"""What is found out about a server: whether it can be trusted, and how the store on it stands."""
