"""The hash by which Kafka finds the partition of a group or of a transactional id."""


def java_hash(text: str) -> int:
    """Returns the absolute value of a Java string's hash code."""
    number = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        number = (31 * number + (units[position] << 8 | units[position + 1])) & 0xFFFF_FFFF
    if number & 0x8000_0000:  # the absolute value of a negative one; the smallest has none and counts as 0
        number = (-number) & 0x7FFF_FFFF
    return number
