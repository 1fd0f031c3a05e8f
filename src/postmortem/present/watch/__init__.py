"""What processes held over time, as blocks, as JSON and as a table that is drawn again."""
