"""What a conversation is: events, ladder, queue, answer, words (worker.md)."""
