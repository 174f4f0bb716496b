"""One module a family: statement, operations, programs, trusted answers and the input generator."""
