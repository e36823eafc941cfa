"""What stores that speak SQL share: statements from files, migrations, a thread to run them."""
