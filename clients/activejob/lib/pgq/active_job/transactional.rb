# frozen_string_literal: true

module Pgq
  module ActiveJob
    # For job classes: perform and the acknowledgement are one transaction of Active Record, so that what the job writes is
    # there exactly once. If the lease is lost, the transaction is rolled back.
    module Transactional
      def self.included(job_class)
        job_class.around_perform do |_job, body|
          lease = Worker.current
          ::ActiveRecord::Base.transaction(requires_new: true) do
            body.call
            lease&.ack { |*arguments| Database.call('pgq_ack', *arguments) }
          end
        rescue Exception # rubocop:disable Lint/RescueException -- any of them has rolled the transaction back
          lease&.rolled_back
          raise
        end
      end
    end
  end
end
