"""What a model and we have said to each other: stored, kept valid, measured and shortened.

`transcript` is the whole; `calls`, `spoken` and `declared` read a reply; `window` and `compaction` make it fit;
`alternation` and `strict` see to what a server takes.
"""
