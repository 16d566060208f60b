# frozen_string_literal: true

require_relative 'lib/pgq/active_job/version'

Gem::Specification.new do |spec|
  spec.name = 'pgq-activejob'
  spec.version = Pgq::ActiveJob::VERSION
  spec.summary = 'Active Job adapter for pgq_ext, the job queue inside PostgreSQL'
  spec.description = 'Enqueues jobs of Active Job in the transactions of Active Record, and runs them in a worker with threads.'
  spec.authors = ['pgq_ext contributors']
  spec.license = 'PostgreSQL'
  spec.required_ruby_version = '>= 3.0'
  spec.files = Dir['lib/**/*.rb', 'exe/*', 'README.md', 'CHANGELOG.md', 'LICENSE']
  spec.bindir = 'exe'
  spec.executables = ['pgq-activejob']
  spec.add_dependency 'activejob', '>= 6.1'
  spec.add_dependency 'pg', '>= 1.4'
end
