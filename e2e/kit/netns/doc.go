//go:build linux

// Package netns runs every node of a test in its own network namespace, so that a test
// can inject network faults between processes of one machine.
//
// Each host has two links: data0 on a bridge of the hosts, for traffic between nodes, and
// ctl0 on a second bridge to the test, which is never affected by faults. Isolate removes
// data0 of a host from its bridge. Block drops packets from one host to another, by a
// wrong neighbour entry in the namespace of the sender. Both lose packets silently, like
// a dead switch: the sender gets an error only from its own timeouts, and connections
// survive if the network is restored before. Partition and Bridge consist of Blocks. Lose
// drops a share of all packets, DropPort the packets to one port, and Reset forges RST
// packets, by a packet filter in the namespace of the host.
//
// Move and Nameserver are for nodes that find each other by name while their addresses
// change.
//
// The package needs root and the ip command. Lose and Reset also need the nft command.
// Names contain the process ID of the test, and New removes the networks of processes
// that have ended.
package netns
