// Package gossip finds the other nodes: Serf with the settings and the checks
// that Shardway needs.
//
// Members is the truth and is asked again at each hint from Changed: a set kept
// up to date from Serf's events loses members after quick restarts. Nothing is
// decided by gossip alone. It says who is there and where, and a failure that it
// reports is a hint.
//
// Cluster id and shard count travel in the tags. Each side refuses, for itself,
// whoever names others, so two clusters never merge by accident; a node that is
// in no cluster yet passes. Of tags that a later version adds nothing is made; the
// versions of log entries that a node reads ("codec", such as "1-2") are there for
// one that will write others.
//
//	New      checks the options
//	Listen   opens the port and starts Serf
//	Run      joins for as long as the node lives; returns when everything ended
package gossip
