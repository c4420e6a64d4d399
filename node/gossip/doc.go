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
// in no cluster yet passes, unless its program knows less than the level that is in
// force ("level", such as "1-2": in force, and known). Of tags that a later version adds
// nothing is made.
//
// memberlist's label would be the cluster id's place in every packet. But it is
// fixed before the first one is sent, and no side takes what has another: a node
// that founds a cluster or joins one knows no id yet, and would be heard by
// nobody. Stripped before memberlist looks it would not be part of what the key
// authenticates, and then it says no more than the tags.
//
// Streams that others open are bounded before memberlist reads them: doorkeeper.
//
// Two things that the libraries did by timers of their own are done here, as each of those
// wakes a node at rest: memberlist's ticks (ticks.go), and Serf's snapshot of whom it saw
// (record.go).
//
//	New      checks the options
//	Listen   opens the port and starts Serf
//	Run      joins for as long as the node lives; returns when everything ended
package gossip
