"""How a scan narrows down, as data, text, HTML and pictures."""
