# frozen_string_literal: true

# The application of test/clients/activejob.pl: a job that does what its argument says.
# The worker requires this file; app.rb produce enqueues jobs.
$LOAD_PATH.unshift(File.expand_path('../lib', __dir__))
require 'active_record'
require 'pgq-activejob'

ActiveRecord::Base.establish_connection(adapter: 'postgresql', host: ENV['PGHOST'], port: ENV['PGPORT'], username: ENV['PGUSER'],
                                        database: ENV['PGDATABASE'], pool: 10)
ActiveJob::Base.queue_adapter = :pgq
ActiveJob::Base.logger = Logger.new($stderr, level: :error)

class Done < ActiveRecord::Base
  self.table_name = 'done'
end

class RetriedError < StandardError; end
class DiscardedError < StandardError; end

class Task < ActiveJob::Base
  include Pgq::ActiveJob::Options
  queue_as 'jobs'
  retry_on RetriedError, wait: 1, attempts: 3
  discard_on DiscardedError
  pgq_options unique_key: ->(task) { task.arguments[1]['unique_key'] }, max_attempts: ->(task) { task.arguments[1]['max_attempts'] }

  def perform(steps, options)
    name = options.fetch('name', 'task')
    steps.split.each do |step|
      what, value = step.split(':')
      case what
      when 'note' then Done.create!(name: name)
      when 'begin' then Done.create!(name: "begin #{name}")
      when 'wait' then Done.uncached { Done.connection.exec_query("SELECT wait_for_gate('#{value}')") }
      when 'execution' then Done.create!(name: "#{name} execution #{executions} of #{provider_job_id}")
      when 'retry' then raise RetriedError, "odd \0 \xe9 text"
      when 'discard' then raise DiscardedError
      when 'fail' then raise 'unhandled'
      end
    end
  end
end

class TransactionalTask < Task
  include Pgq::ActiveJob::Transactional
end

# Prints what the test compares: the ids of two jobs with one unique key; how many jobs there are after a transaction that was rolled
# back, and after one that was committed; the number of ids of enqueue_all.
def produce
  options = { 'name' => 'options', 'unique_key' => 'u', 'max_attempts' => 3 }
  puts Task.set(wait: 600, priority: 5).perform_later('note', options).provider_job_id, Task.perform_later('note', options).provider_job_id
  [true, false].each do |undone|
    Done.transaction do
      Done.create!(name: 'sent')
      Task.perform_later('note', { 'name' => 'sent' })
      raise ActiveRecord::Rollback if undone
    end
    puts Done.connection.select_value('SELECT count(*) FROM pgq_ext.job') + Done.count
  end
  jobs = Array.new(20) { |i| Task.new('note', { 'name' => "all #{i}" }) }
  ActiveJob::Base.queue_adapter.enqueue_all(jobs)
  puts jobs.map(&:provider_job_id).uniq.size
end

produce if ARGV == ['produce']
