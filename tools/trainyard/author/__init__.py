"""Job folders written for their authors: what they are asked, what is proposed, and how the two files come to be."""
