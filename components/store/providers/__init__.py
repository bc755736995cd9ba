"""Search providers: a query in, addresses of pages out."""
