"""What a workflow file says, and what its functions are given."""
