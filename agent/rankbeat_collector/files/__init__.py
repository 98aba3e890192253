"""What one pod's collector writes into the job's own volume, or posts: rows in files of several formats."""
