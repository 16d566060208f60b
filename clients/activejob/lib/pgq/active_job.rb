# frozen_string_literal: true

require 'json'
require 'pg'
require 'active_job'
require 'pgq/active_job/version'
require 'pgq/active_job/database'
require 'pgq/active_job/options'
require 'pgq/active_job/transactional'
require 'pgq/active_job/worker'
require 'active_job/queue_adapters/pgq_adapter'

module Pgq
  # Jobs of Active Job in queues of pgq_ext.
  module ActiveJob
    # With these settings of TCP, a machine that is down is noticed within seconds.
    TCP = { keepalives_idle: 5, keepalives_interval: 2, keepalives_count: 3, tcp_user_timeout: 10_000 }.freeze
    private_constant :TCP

    class << self
      # False: do not create a queue that does not exist.
      attr_writer :create_queues

      # Where jobs are enqueued: a proc that returns a PG::Connection. nil: the connection of Active Record if there is one,
      # else a connection of this module.
      attr_accessor :connection

      def create_queues
        @create_queues.nil? || @create_queues
      end

      # Returns a new PG::Connection to the primary: with the settings of Active Record, DATABASE_URL, or PGHOST and so on.
      def connect(**more)
        target = { target_session_attrs: ENV.fetch('PGTARGETSESSIONATTRS', 'read-write'), **more }
        if Database.active_record?
          PG.connect(**TCP, **settings_of(::ActiveRecord::Base.connection_db_config.configuration_hash), **target)
        elsif ENV['DATABASE_URL']
          PG.connect(ENV['DATABASE_URL'], **TCP.reject { |name,| ENV['DATABASE_URL'].include?(name.to_s) }, **target)
        else
          PG.connect(**TCP, **target)
        end
      end

      private

      # Returns the settings of Active Record that libpq knows, by the names of libpq.
      def settings_of(config)
        names = { username: :user, database: :dbname }
        known = PG::Connection.conndefaults_hash.keys
        config.transform_keys { |key| names.fetch(key, key) }.select { |key, value| known.include?(key) && value }
      end
    end
  end
end
