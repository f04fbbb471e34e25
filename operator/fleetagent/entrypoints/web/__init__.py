"""Page and API: what people read in the browser and by HTTP, and what they may change."""
