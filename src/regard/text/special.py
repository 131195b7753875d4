"""The four ids that mean the same in every vocabulary.

They are plain vocabulary entries, never patterns looked for in text: `<s>` in user data is three ordinary characters.
"""

PAD, UNKNOWN, START, END = 0, 1, 2, 3

#: The name of each special id, at its index.
NAMES = ("<pad>", "<unk>", "<s>", "</s>")

#: In the vocabularies of models that fill in blanks alone: a token that was taken out.
MASK = 4
MASK_NAME = "<mask>"

#: What `decode` writes for UNKNOWN and for bytes that are no character: U+FFFD.
REPLACEMENT = "\ufffd"
