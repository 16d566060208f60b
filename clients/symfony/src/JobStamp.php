<?php

namespace PgqExt\Messenger;

use Symfony\Component\Messenger\Stamp\StampInterface;

/**
 * Options of the job that a message becomes. The names are those of the parameters of pgq_enqueue; intervals are texts of
 * PostgreSQL, such as '10 min'. A delay is given by Symfony's DelayStamp.
 */
final class JobStamp implements StampInterface
{
    public function __construct(
        public readonly ?int $priority = null,
        public readonly ?string $groupKey = null,
        public readonly ?string $uniqueKey = null,
        public readonly ?string $uniqueUntil = null,
        public readonly ?string $uniqueFor = null,
        public readonly ?string $onConflict = null,
        public readonly ?int $maxAttempts = null,
        public readonly ?string $expiresIn = null,
        public readonly ?string $runAt = null,
    ) {
    }

    /**
     * Returns the parameters of pgq_enqueue that are given. A message that is sent again has no unique key: otherwise it
     * would be dropped while the first job still has the key.
     */
    public function parameters(bool $again): array
    {
        $parameters = [
            'priority' => $this->priority,
            'group_key' => $this->groupKey,
            'max_attempts' => $this->maxAttempts,
            'expires_in' => $this->expiresIn,
            'run_at' => $this->runAt,
        ];
        if (!$again) {
            $parameters += [
                'unique_key' => $this->uniqueKey,
                'unique_until' => $this->uniqueUntil,
                'unique_for' => $this->uniqueFor,
                'on_conflict' => $this->onConflict,
            ];
        }

        return array_filter($parameters, static fn ($value) => null !== $value);
    }
}
