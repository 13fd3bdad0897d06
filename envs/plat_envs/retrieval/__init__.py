"""The retrieval server: pages, found by BM25 or by an encoder and FAISS, for many runs at once."""
