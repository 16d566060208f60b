#!/usr/bin/env ruby
# Works off the queue "mail"; PGHOST, PGDATABASE and so on say where. SIGTERM: the job in hand is finished, what has not begun
# is given back. If a job is not ours any more (it took too long, or was cancelled) pgq_ack fails, which undoes its work. Where
# there is a standby, PGHOST=one,two and PGTARGETSESSIONATTRS=read-write, and it goes on after a failover.
require 'json'
require 'pg'

stopping = false
trap('TERM') { stopping = true }
held = [] # of the jobs claimed last those that have not ended

def handle(db, job) # the work: committed with the ack, or not at all
  db.exec_params('INSERT INTO sent (job_id, address) VALUES ($1, $2)', [job['job_id'], JSON.parse(job['payload'])['to']])
end

connected = lambda do |&use| # whoever is the primary: what was in hand comes again
  until stopping
    begin
      PG.connect(&use)
    rescue PG::Error => e
      warn e.message
      sleep 1
    end
  end
end

PG.connect.close # what is wrong from the start is an error
Thread.new do # the heartbeat, well within the queue's lease_time
  connected.call do |db|
    loop do
      sleep 3
      held.each { |job| db.exec_params('SELECT pgq_extend($1, $2)', job.values_at('job_id', 'lease')) }
    end
  end
end

connected.call do |db|
  until stopping
    held = db.exec("SELECT job_id, lease, payload FROM pgq_claim('mail', 5, wait => '5 s')").to_a
    held.each do |job|
      ticket = job.values_at('job_id', 'lease')
      next db.exec_params('SELECT pgq_release($1, $2)', ticket) if stopping
      begin
        db.transaction do
          handle(db, job)
          db.exec_params('SELECT pgq_ack($1, $2)', ticket)
        end
      rescue StandardError => e # tried again after the queue's backoff
        db.exec_params('SELECT pgq_fail($1, $2, error => $3)', [*ticket, e.message])
      end
      held = held.drop(1)
    end
  end
ensure
  held = [] # the connection is gone: somebody else gets them
end
