"""What people see: tables, carets, errors and JSON documents."""
