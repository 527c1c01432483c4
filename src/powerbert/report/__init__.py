"""What a person looks at: the words that survive, in a terminal and as a page; tables and pictures of figures."""
