<?php

namespace PgqExt\Messenger;

use Symfony\Component\Messenger\Stamp\NonSendableStampInterface;

/** Says which job a received message is, and by which lease the worker has it. */
final class LeaseStamp implements NonSendableStampInterface
{
    /** True when the job has been acknowledged, has failed or was given back. All copies of the envelope share the stamp. */
    public bool $ended = false;

    /**
     * @param string|null $lease   null if the message was only looked up, by all() or find()
     * @param int         $retries retries of Messenger before this delivery
     */
    public function __construct(
        public readonly Queue $queue,
        public readonly string $jobId,
        public readonly ?string $lease,
        public readonly int $attempt,
        public readonly int $retries,
    ) {
    }
}
