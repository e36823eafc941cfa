"""Jobs in MongoDB: the way of mongodb-cron, and what Rota is measured by beside many others."""
