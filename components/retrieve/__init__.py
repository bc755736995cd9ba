"""Steps that find passages: retrievers, fusion, re-ranking. No storage of documents."""
