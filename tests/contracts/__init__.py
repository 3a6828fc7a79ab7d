"""What is promised outside: settings, imports, compatibility."""
