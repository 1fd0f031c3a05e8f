"""The first module, tensor or batch whose numbers went bad; knows no torch."""
