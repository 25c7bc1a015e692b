"""What `audit` is made of: records reduced to checksums, the checks on them, the report and its page."""
