"""Facts and conclusions to blocks of text and to the fields of the JSON report."""
