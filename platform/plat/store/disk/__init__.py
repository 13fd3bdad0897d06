"""Write files and folders so that a crash leaves the old content or the new one."""
