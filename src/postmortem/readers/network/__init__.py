"""What one machine says of its network: names, interfaces, who has a port."""
