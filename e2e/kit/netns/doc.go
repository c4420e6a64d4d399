//go:build linux

// Package netns gives every node of a test a network namespace of its own, so
// that a test can cut wires between processes of one machine.
//
// Each host has two links: data0 on a bridge of the hosts, on which the nodes
// talk to each other, and ctl0 on a second bridge to the test, which is never
// cut. Isolate takes a host's data0 off its bridge; Block drops what one host
// sends to another, by a wrong neighbour entry in the sender's namespace. Both
// lose packets silently, as a dead switch does: no error reaches the sender
// until its own timeouts do, and connections survive if the wire heals first.
// Halves and Bridge are made of Blocks. Lose drops a share of all packets, DropPort
// those to one port, and Reset forges refusals, by a packet filter in the host's namespace.
//
// Move and Nameserver are for nodes that find each other by name at addresses that
// change.
//
// It needs root and the ip command, Lose and Reset also the nft command. Names
// carry the pid of the test, and New sweeps away what tests left behind that are
// no more.
package netns
