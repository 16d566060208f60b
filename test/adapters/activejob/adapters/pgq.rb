# frozen_string_literal: true

# The unit tests expect that an enqueue runs the job at once, whatever its time is, and raises its error.
require 'pgq-activejob'

# The unit tests name this adapter, which Debian does not have.
ActiveJob::QueueAdapters.const_set(:SneakersAdapter, Class.new)

module RunAtOnce
  DB = Pgq::ActiveJob.connect

  def enqueue_at(job, timestamp)
    super
    run_all unless Pgq::ActiveJob::Worker.current
  end

  private

  # Makes all scheduled jobs due, also those of retries, until there is no scheduled job.
  def run_all
    loop do
      DB.exec("SELECT pgq_retry(job_id) FROM pgq_ext.job_status WHERE state = 'scheduled'")
      queues = DB.exec('SELECT queue FROM pgq_ext.queue').column_values(0)
      return if DB.exec('SELECT FROM pgq_ext.job').ntuples.zero?

      queues.each_slice(8) { |some| Pgq::ActiveJob::Worker.new(queues: some).drain }
    end
  ensure
    DB.exec('SELECT pgq_cancel(job_id) FROM pgq_ext.job_status')
  end
end

ActiveJob::QueueAdapters::PgqAdapter.prepend(RunAtOnce)
ActiveJob::Base.queue_adapter = :pgq
