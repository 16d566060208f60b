"""Names of queues and topics, and messages as JSON that PostgreSQL can store."""

import base64
import hashlib
import unicodedata

from kombu.utils.json import dumps, loads

MOST_BYTES = 59  # of the name of a queue
MOST_TOPIC_BYTES = 255
MARKER = "auto-delete"  # the topic to which all queues are bound that live only as long as a connection


def _digest(text):
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _is_storable(character):
    return character.isprintable() and unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cf", "Cc", "Cs", "Co", "Cn")


def queue_name(prefix, name):
    """Return the name of the queue in pgq_ext: the same one, or if pgq_ext would refuse it, a similar one with a digest."""
    name = prefix + name
    if name and len(name.encode("utf-8", "surrogatepass")) <= MOST_BYTES and all(map(_is_storable, name)):
        return name
    similar = "".join(c if _is_storable(c) else "_" for c in name).encode()[: MOST_BYTES - 17].decode(errors="ignore")
    return f"{similar}~{_digest(name)}"


def _word(text):
    """Return the text as one word of a topic, which is no wildcard. An empty text becomes a word, too."""
    for character in "%.*#":
        text = text.replace(character, f"%{ord(character):02x}")
    return "".join(c if _is_storable(c) else f"%{ord(c):02x}" for c in text) or "%"


def _topic(prefix, exchange, words):
    topic = ".".join([_word(f"{prefix}kombu"), _word(exchange), *words])
    if len(topic.encode("utf-8", "surrogatepass")) <= MOST_TOPIC_BYTES:
        return topic
    return ".".join([_word(f"{prefix}kombu")[:64], _digest(exchange), *(_digest(word) if word not in "*#" else word for word in words)])


def topic_of(prefix, exchange, kind, routing_key):
    """Return the topic to which a message with this routing key is published."""
    words = {"fanout": [], "topic": [_word(w) for w in (routing_key or "").split(".")]}.get(kind, [_word(routing_key or "")])
    return _topic(prefix, exchange, words)


def pattern_of(prefix, exchange, kind, routing_key):
    """Return the pattern of a binding with this routing key."""
    if kind != "topic":
        return topic_of(prefix, exchange, kind, routing_key)
    return _topic(prefix, exchange, [w if w in ("*", "#") else _word(w) for w in (routing_key or "").split(".")])


def marker_of(prefix):
    """Return the pattern to which queues are bound that are dropped when their connection is gone."""
    return f"{_word(f'{prefix}kombu')}.{MARKER}"


def to_json(message):
    """Return the message as JSON; what PostgreSQL cannot store (NUL, halves of surrogate pairs, NaN) is kept in base64."""
    try:
        text = dumps(message, ensure_ascii=False, allow_nan=False)
        text.encode()
        if "\\u0000" not in text:
            return text
    except ValueError:
        pass
    return dumps({"base64": base64.b64encode(dumps(message).encode()).decode()})


def from_json(text):
    message = loads(text)
    if isinstance(message, dict) and isinstance(message.get("base64"), str):
        message = loads(base64.b64decode(message["base64"]).decode())
    if not isinstance(message, dict) or not isinstance(message.get("properties"), dict):
        raise ValueError("the payload is not a message of kombu")
    return message
