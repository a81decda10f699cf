"""What the `exportdesk` command does, one module per noun."""
