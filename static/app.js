// Starts what this page needs, then says that it listens.
