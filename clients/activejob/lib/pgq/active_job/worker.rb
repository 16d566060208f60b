# frozen_string_literal: true

require 'logger'
require 'socket'
require 'pgq/active_job/lease'

module Pgq
  module ActiveJob
    # Runs jobs in threads. One connection claims, one extends leases, and one, which the threads share, tells the server what has
    # become of the jobs. That call may wait for a lock, and leases must be extended while it waits.
    class Worker
      # Errors after which a new connection is needed; after 25006 the old one is to a standby.
      LOST = [PG::ConnectionBad, PG::UnableToSend, PG::AdminShutdown, PG::CrashShutdown, PG::CannotConnectNow,
              PG::ReadOnlySqlTransaction].freeze
      # Errors after which the same call may succeed later: a conflict, a shortage, a lock, a timeout.
      PASSING = [PG::TransactionRollback, PG::InsufficientResources, PG::LockNotAvailable, PG::OperatorIntervention].freeze
      CLAIM = 'SELECT job_id, lease, queue, attempt, payload, progress, ' \
              'extract(epoch FROM lease_expires_at - clock_timestamp()) AS seconds ' \
              'FROM pgq_claim_any($1, $2, wait => $3, lease_time => $4, worker => $5)'

      # A connection that is used by one thread at a time. One that was lost is replaced by the next call.
      class Shared
        def initialize
          @lock = Mutex.new
        end

        # Yields the connection.
        def use
          @lock.synchronize do
            @db ||= ActiveJob.connect(fallback_application_name: 'pgq-activejob')
            yield @db
          rescue *LOST
            @db = nil
            raise
          end
        end
      end
      private_constant :Shared

      class << self
        # The lease of the job that this thread is running, or nil.
        def current
          Thread.current[:pgq_lease]
        end

        def stopping?
          @stopping || false
        end

        attr_writer :stopping

        # Notes what Active Job reports about the job that this thread is running.
        def subscribe
          @subscribe ||= ActiveSupport::Notifications.subscribe(/\A(enqueue_retry|retry_stopped)\.active_job\z/) do |name, _start, _end, _id, payload|
            name.start_with?('retry_stopped') ? current&.give_up : current&.reason = payload[:error]
          end
        end
      end

      # queues: names, the first one first. lease_time: seconds; default: that of each queue. timeout: how long the jobs in work
      # may take after stop.
      def initialize(queues: ['default'], threads: 5, lease_time: nil, timeout: 25, wait: 1, name: nil, logger: nil)
        @queues = queues
        @threads = threads
        @lease_time = lease_time && "#{lease_time} s"
        @timeout = timeout
        @wait = "#{wait} s"
        @name = name || "#{Socket.gethostname}:#{Process.pid}"
        @logger = logger || ::ActiveJob::Base.logger || Logger.new($stderr)
        @interval = 3.0
        @running = {} # Lease => Thread
        @lock = Mutex.new
        @free = ConditionVariable.new
        @control = Shared.new
        @heartbeat = Shared.new
      end

      # Stops claiming. May be called by a signal handler.
      def stop
        @stopping = true
        Worker.stopping = true
      end

      # Works until stop is called; returns true if the jobs in work have ended in time. Raises an error if it cannot start.
      def run
        Worker.subscribe
        prepare
        heartbeat = Thread.new { extend_leases until @stopped }
        begin
          connected { |db| claim(db) until @stopping } until @stopping
        rescue PG::Error
          wait_for_jobs
          raise
        end
        wait_for_jobs
      ensure
        @stopped = true
        heartbeat&.kill
      end

      # For tests: runs the jobs that are ready, one by one, in this thread, and raises the error of a job. Returns how many.
      def drain
        Worker.subscribe
        count = 0
        while (row = rows_of(control { |db| db }, 1, '0').first)
          lease = Lease.new(row)
          perform(lease)
          control { |db| lease.finish(db) }
          raise lease.error if lease.error

          count += 1
        end
        count
      end

      private

      def prepare
        control do |db|
          @queues.each { |queue| Database.rows(db, 'pgq_create_queue', [queue], { if_not_exists: true }) } if ActiveJob.create_queues
        rescue PG::InsufficientPrivilege
          nil # then the queues must exist; the claim says so
        end
        ActiveJob.connect.close
      end

      # ---- claims ----

      # Claims as many jobs as threads are free, and starts them.
      def claim(db)
        free = wait_for_free
        return if @stopping

        rows_of(db, free, @wait).each do |row|
          lease = Lease.new(row)
          @interval = [@interval, row['seconds'].to_f / 3].min.clamp(0.2, 3.0)
          @stopping ? control { |control| lease.release(control) } : start(lease)
        end
      end

      def rows_of(db, count, wait)
        rows = db.exec_params(CLAIM, [PG::TextEncoder::Array.new.encode(@queues), count, wait, @lease_time, @name]).to_a
        @claimed = true
        rows
      end

      def wait_for_free
        @lock.synchronize do
          @free.wait(@lock, 0.2) until @stopping || @running.size < @threads
          @threads - @running.size
        end
      end

      # Yields a connection for claims. After an error that may pass waits a moment, then the caller tries again.
      def connected
        db = ActiveJob.connect(fallback_application_name: 'pgq-activejob')
        yield db
      rescue *LOST, *PASSING => e
        raise unless @claimed || LOST.any? { |lost| e.is_a?(lost) } # wrong from the start: too many queues, for example

        @logger.error("pgq: #{e.message.strip}")
        sleep(rand * 1.5 + 0.2) unless @stopping
      rescue PG::UndefinedObject
        raise unless ActiveJob.create_queues

        prepare # the queue was dropped
      ensure
        db&.close unless db&.finished?
      end

      # ---- one job ----

      def start(lease)
        @lock.synchronize do
          @running[lease] = Thread.new do
            perform(lease)
            report(lease)
          ensure
            ::ActiveRecord::Base.connection_handler.clear_active_connections! if Database.active_record?
            @lock.synchronize do
              @running.delete(lease)
              @free.signal
            end
          end
        end
      end

      # Runs the job, in Rails with its executor: that gives connections back, and reloads code in development.
      def perform(lease)
        Thread.current[:pgq_lease] = lease
        wrap { ::ActiveJob::Base.execute(lease.data) }
      rescue Exception => e # rubocop:disable Lint/RescueException -- a job may raise anything; the worker goes on
        lease.failed(e)
      ensure
        Thread.current[:pgq_lease] = nil
      end

      def wrap(&body)
        reloader = defined?(::Rails) && ::Rails.respond_to?(:application) && ::Rails.application&.reloader
        reloader ? reloader.wrap(&body) : body.call
      end

      # Tells the server what has become of the job; while there is no server, tries again.
      def report(lease)
        tries = 0
        begin
          outcome = control { |db| lease.finish(db) }
          @logger.error("pgq: the lease of job #{lease.id} is lost; another worker may have the job") if outcome == 'stale'
          @logger.error("pgq: job #{lease.id} failed (#{outcome}): #{lease.error.class}: #{lease.error.message}") if lease.error
        rescue *LOST, *PASSING => e
          raise if (tries += 1) > 10

          @logger.error("pgq: #{e.message.strip}")
          sleep(rand + 0.3)
          retry
        end
      rescue StandardError => e
        @logger.error("pgq: job #{lease.id} comes again: #{e.message}")
      end

      # ---- heartbeats and the end ----

      def extend_leases
        sleep @interval
        leases = @lock.synchronize { @running.keys }
        leases.each do |lease|
          @heartbeat.use { |db| Database.rows(db, 'pgq_extend', [lease.id, lease.lease], {}) }
        end
      rescue StandardError => e
        @logger.error("pgq: heartbeat: #{e.message.strip}")
      end

      def control(&body)
        @control.use(&body)
      end

      def wait_for_jobs
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + @timeout
        @lock.synchronize do
          until @running.empty?
            left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
            break if left <= 0

            @free.wait(@lock, [left, 0.2].min)
          end
          @running.empty?
        end
      end
    end
  end
end
