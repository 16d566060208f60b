<?php

namespace PgqExt\Messenger;

/**
 * Stores what a serializer of Messenger makes, a body and headers, as payload and headers of a job. A body that is JSON becomes
 * the payload itself, any other text a string. So a job that was enqueued by SQL can be a message, too: its payload is the body.
 */
final class Codec
{
    private const BINARY = 'pgq-encoding';

    /** Returns [payload, headers], both JSON. Structured: a body that is JSON becomes the payload itself. */
    public static function encode(array $message, bool $structured = true): array
    {
        $body = $message['body'];
        $headers = $message['headers'] ?? [];
        if (!self::isStorable($body)) {
            $headers[self::BINARY] = 'base64';
            $body = base64_encode($body);
        } elseif ($structured && 'application/json' === ($headers['Content-Type'] ?? null) && self::isStructure($body)) {
            return [$body, json_encode($headers, \JSON_THROW_ON_ERROR)];
        }

        return [json_encode($body, \JSON_THROW_ON_ERROR | \JSON_UNESCAPED_UNICODE), $headers ? json_encode($headers, \JSON_THROW_ON_ERROR) : null];
    }

    /** The message that the next attempt gets, as the progress of the job. */
    public static function encodeProgress(array $message): string
    {
        [$payload, $headers] = self::encode($message, false);

        return sprintf('{"messenger": {"payload": %s, "headers": %s}}', $payload, $headers ?? 'null');
    }

    /** Returns ['body' => ..., 'headers' => ...] for the serializer. */
    public static function decode(array $row): array
    {
        $progress = json_decode($row['progress'] ?? 'null', true);
        if (isset($progress['messenger'])) {
            ['payload' => $body, 'headers' => $headers] = $progress['messenger'];
        } else {
            $headers = json_decode($row['headers'] ?? 'null', true);
            $body = json_decode($row['payload']);
            $body = \is_string($body) ? $body : $row['payload'];
        }
        $headers = array_map(static fn ($value) => \is_scalar($value) ? (string) $value : json_encode($value), \is_array($headers) ? $headers : []);
        if ('base64' === ($headers[self::BINARY] ?? null)) {
            $body = base64_decode($body);
            unset($headers[self::BINARY]);
        }

        return ['body' => $body, 'headers' => $headers];
    }

    /** Returns the text as PostgreSQL can store it: valid UTF-8 without NUL. */
    public static function storable(string $text): string
    {
        return str_replace("\0", '?', json_decode(json_encode($text, \JSON_INVALID_UTF8_SUBSTITUTE)));
    }

    private static function isStorable(string $text): bool
    {
        return preg_match('//u', $text) && !str_contains($text, "\0");
    }

    /** Returns whether the text is a JSON object or array that jsonb can store. */
    private static function isStructure(string $text): bool
    {
        return preg_match('/^\s*[{[]/', $text) && !str_contains($text, '\u0000') && null !== json_decode($text) && !preg_match('/\\\\u[dD][89a-fA-F]/', $text);
    }
}
