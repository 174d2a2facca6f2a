"""A laboratory for queue management against bufferbloat."""
