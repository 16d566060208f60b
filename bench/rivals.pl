#!/usr/bin/perl
print "later\n";
