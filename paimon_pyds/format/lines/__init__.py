"""Files of lines, as format tables have them: `reader` cuts and counts lines, `csv` and `json` parse them."""
