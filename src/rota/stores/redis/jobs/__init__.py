"""Jobs: a head that scripts read and a body that they do not, and the orders they are found in."""
