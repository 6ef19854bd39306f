"""Operations: for people who inspect and repair."""
