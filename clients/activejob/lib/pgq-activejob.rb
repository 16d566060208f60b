# frozen_string_literal: true

require 'pgq/active_job'
