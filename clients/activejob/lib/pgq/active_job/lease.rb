# frozen_string_literal: true

module Pgq
  module ActiveJob
    # A job that a worker has claimed, and what is to become of it.
    class Lease
      attr_reader :id, :lease, :queue, :error

      def initialize(row)
        @id, @lease, @queue, @attempt = row.values_at('job_id', 'lease', 'queue', 'attempt')
        @payload = row['payload']
        @progress = row['progress']
        @acked = false
      end

      # The data of the job as Active Job has serialized it; after a retry, as it was then. The number of executions counts
      # attempts that a dead worker has begun, too.
      def data
        kept = JSON.parse(@progress || 'null')
        data = kept.is_a?(Hash) && kept.key?('active_job') ? kept['active_job'] : JSON.parse(@payload)
        raise ArgumentError, 'the payload is no job of Active Job' unless data.is_a?(Hash) && data['job_class']

        @job_id = data['job_id']
        data.merge('provider_job_id' => @id.to_i, 'executions' => [data['executions'].to_i, @attempt.to_i - 1].max)
      end

      # Active Job enqueues this job again (retry_on, retry_job). Returns false if it is another job, or for another queue.
      def retry(job, timestamp)
        return false unless job.job_id == @job_id && job.queue_name == @queue && !@acked && !@retry

        @retry = { data: job.serialize, delay: timestamp ? [timestamp - Time.now.to_f, 0].max : 0 }
        job.provider_job_id = @id.to_i
        true
      end

      # The error for which Active Job enqueues the job again.
      attr_writer :reason

      # Active Job has given up (retry_on has used up its attempts). If it also raises the error, the job is a dead letter.
      def give_up
        @given_up = true
      end

      def failed(error)
        @error = error
      end

      # Acknowledges the job by block(id, lease), once.
      def ack
        return if @acked

        yield @id, @lease
        @acked = true
      end

      # The transaction of the acknowledgement was rolled back.
      def rolled_back
        @acked = false
      end

      # Tells the server what has become of the job. Returns acked, retry, dead or stale.
      def finish(db)
        return 'acked' if @acked
        return retried(db) if @retry
        return failure(db, **(@given_up ? { retry: false } : {})) if @error

        ack { |*arguments| Database.rows(db, 'pgq_ack', arguments, {}) }
        'acked'
      rescue PG::Error => e
        raise unless Database.sqlstate(e) == 'PQ001'

        'stale'
      end

      def release(db)
        Database.rows(db, 'pgq_release', [@id, @lease], {})
      end

      private

      # The next attempt gets the job as it is now, with its number of executions.
      def retried(db)
        db.transaction do
          Database.rows(db, 'pgq_progress', [@id, @lease, JSON.generate(active_job: @retry[:data])], {})
          failure(db, retry_in: format('%.6f s', @retry[:delay])) # an interval has no exponent
        end
      end

      def failure(db, **how)
        error = @error || @reason
        text = error ? "#{error.class}: #{error.message}" : 'retried'
        Database.rows(db, 'pgq_fail', [@id, @lease], { error: Database.storable(text), **how }).first
      end
    end
  end
end
