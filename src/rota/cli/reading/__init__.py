"""What people type: options, instants, zones and crontab files, read into values."""
