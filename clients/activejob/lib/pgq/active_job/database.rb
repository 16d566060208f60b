# frozen_string_literal: true

module Pgq
  module ActiveJob
    # Calls functions of pgq_ext on the connection of the application, in its transaction.
    module Database
      OWN = Mutex.new
      private_constant :OWN

      class << self
        def active_record?
          defined?(::ActiveRecord::Base) && ::ActiveRecord::Base.connection_db_config.adapter.to_s.match?(/\A(postgresql|postgis)\z/)
        rescue StandardError
          false # Active Record has no connection
        end

        # Calls a function with positional and named arguments; returns the first column of its rows.
        def call(function, *arguments, **named)
          if ActiveJob.connection
            rows(ActiveJob.connection.call, function, arguments, named)
          elsif active_record?
            through_active_record(function, arguments, named)
          else
            OWN.synchronize { on_own_connection { |db| rows(db, function, arguments, named) } }
          end
        end

        # Calls the function by this PG::Connection.
        def rows(db, function, arguments, named)
          places = arguments.each_index.map { |i| "$#{i + 1}" }
          places += named.keys.each_with_index.map { |name, i| "#{name} => $#{arguments.size + i + 1}" }
          db.exec_params("SELECT #{function}(#{places.join(', ')})", arguments + named.values).column_values(0)
        end

        # Returns whether the application has a transaction open.
        def in_transaction?
          if ActiveJob.connection
            ActiveJob.connection.call.transaction_status != PG::PQTRANS_IDLE
          else
            active_record? && ::ActiveRecord::Base.connection.transaction_open?
          end
        end

        # Returns the SQLSTATE of an error of PG, or of Active Record's error that it caused.
        def sqlstate(error)
          error = error.cause while error && !error.is_a?(PG::Error)
          error&.result&.error_field(PG::PG_DIAG_SQLSTATE)
        end

        # Returns a text that PostgreSQL can store: valid UTF-8 without NUL.
        def storable(text)
          text.dup.force_encoding('UTF-8').scrub('?').tr("\0", '?')
        end

        private

        # exec_query begins a transaction that Active Record has only planned, and its result is not cached.
        def through_active_record(function, arguments, named)
          db = ::ActiveRecord::Base.connection
          places = arguments.map { |value| db.quote(value) } + named.map { |name, value| "#{name} => #{db.quote(value)}" }
          db.exec_query("SELECT #{function}(#{places.join(', ')})", 'pgq').rows.map(&:first)
        end

        # A connection that is lost is replaced by the next call; a process that has forked connects anew.
        def on_own_connection
          @own = nil if @pid != Process.pid
          @pid = Process.pid
          @own ||= ActiveJob.connect
          yield @own
        rescue PG::ConnectionBad, PG::UnableToSend, PG::AdminShutdown
          @own = nil
          raise
        end
      end
    end
  end
end
