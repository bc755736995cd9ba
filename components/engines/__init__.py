"""Language models behind one interface: prompts in, replies out. No prompts live here."""
