# frozen_string_literal: true

module Pgq
  module ActiveJob
    # For job classes: options of pgq_enqueue. A value may be a proc, which is called with the job.
    #
    #   class Mail < ApplicationJob
    #     include Pgq::ActiveJob::Options
    #     pgq_options group_key: ->(mail) { mail.arguments.first }, max_attempts: 5
    #   end
    module Options
      KNOWN = %i[group_key unique_key unique_until unique_for on_conflict max_attempts expires_in batch].freeze

      def self.included(job_class)
        job_class.class_attribute :pgq_job_options, instance_accessor: false, default: {}
        job_class.extend(ClassMethods)
      end

      # Returns the options of a job for which its class gives a value.
      def self.of(job)
        return {} unless job.class.respond_to?(:pgq_job_options)

        job.class.pgq_job_options.transform_values do |value|
          value = value.call(job) if value.respond_to?(:call)
          value.is_a?(ActiveSupport::Duration) ? format('%.6f s', value.to_f) : value
        end.compact
      end

      # The methods that the class gets.
      module ClassMethods
        def pgq_options(**options)
          unknown = options.keys - KNOWN
          raise ArgumentError, "unknown options of a job: #{unknown.join(', ')}" if unknown.any?

          self.pgq_job_options = pgq_job_options.merge(options)
        end
      end
    end
  end
end
