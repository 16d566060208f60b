# frozen_string_literal: true

require 'active_job'

module ActiveJob
  module QueueAdapters
    # Enqueues jobs with pgq_enqueue:
    #
    #   config.active_job.queue_adapter = :pgq
    class PgqAdapter < (const_defined?(:AbstractAdapter) ? AbstractAdapter : Object)
      # Rails 7.2: enqueue in the transaction, which is committed or rolled back with the job.
      def enqueue_after_transaction_commit?
        false
      end

      # Rails 8.1: continuations ask whether they should stop.
      def stopping?
        Pgq::ActiveJob::Worker.stopping?
      end

      def enqueue(job)
        enqueue_at(job, nil)
      end

      # If the job is the one that this thread is running, that is a retry: the worker fails the attempt with the delay.
      def enqueue_at(job, timestamp)
        return if Pgq::ActiveJob::Worker.current&.retry(job, timestamp)

        options = options_of(job, timestamp)
        with_queue(job.queue_name) do
          job.provider_job_id = Pgq::ActiveJob::Database.call('pgq_enqueue', job.queue_name, payload_of(job), **options).first.to_i
        end
      end

      # Rails 7.1: perform_all_later. Returns the number of jobs.
      def enqueue_all(jobs)
        jobs.group_by(&:queue_name).each do |queue, some|
          elements = some.map { |job| options_of(job, job.scheduled_at&.to_f).merge(payload: job.serialize) }
          with_queue(queue) do
            ids = Pgq::ActiveJob::Database.call('pgq_enqueue_many', queue, JSON.generate(elements))
            some.zip(ids) do |job, id|
              job.provider_job_id = id.to_i
              job.successfully_enqueued = true if job.respond_to?(:successfully_enqueued=)
            end
          end
        end
        jobs.size
      end

      private

      def payload_of(job)
        JSON.generate(job.serialize)
      end

      # For Active Job a smaller number goes first; for pgq_ext a greater one.
      def options_of(job, timestamp)
        options = Pgq::ActiveJob::Options.of(job)
        options[:priority] = -job.priority if job.priority
        options[:run_at] = Time.at(timestamp).utc.iso8601(6) if timestamp
        options
      end

      # Creates a queue that does not exist. In a transaction the error has already undone the work.
      def with_queue(queue)
        yield
      rescue StandardError => e
        raise unless Pgq::ActiveJob::Database.sqlstate(e) == '42704' && Pgq::ActiveJob.create_queues && !Pgq::ActiveJob::Database.in_transaction?

        Pgq::ActiveJob::Database.call('pgq_create_queue', queue, if_not_exists: true)
        yield
      end
    end
  end
end
