# The library for Node
use strict;
use warnings;
use LibraryTest;

run_scenarios('Node', 'node', 'clients/node/test/subject.js');
