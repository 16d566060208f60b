# frozen_string_literal: true

module Pgq
  module ActiveJob
    VERSION = '0.2.0'
  end
end
