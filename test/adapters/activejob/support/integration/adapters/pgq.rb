# frozen_string_literal: true

require 'pgq-activejob'

# Starts a worker in the Rails application of the tests.
module PgqJobsManager
  def setup
    ActiveJob::Base.queue_adapter = :pgq
  end

  def start_workers
    @worker = Pgq::ActiveJob::Worker.new(queues: ['integration_tests'], threads: 1)
    @thread = Thread.new { @worker.run }
  end

  def stop_workers
    @worker.stop
    @thread.join
  end

  def clear_jobs
    Pgq::ActiveJob.connect.exec('SELECT pgq_cancel(job_id) FROM pgq_ext.job_status').clear
  end
end
