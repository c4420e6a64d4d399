// Package gossip finds the other nodes. It runs Serf with the settings and the checks that Shardway
// needs.
//
// # Types
//
//   - Gossip is the membership of this node: New checks the options, Listen opens the port and starts
//     Serf, Run joins other nodes for as long as the node lives.
//   - Member and Tags are a member and the data that it announces.
//   - RefusedError is why two nodes do not belong to the same cluster.
//   - Attempt is the result of joining one address.
//
// # Concurrency
//
// Run owns all goroutines and returns after it has stopped them. The other methods are safe for concurrent
// use after Listen has returned.
//
// # Invariants
//
//   - Members returns the current state from Serf, and callers ask again after each hint from Changed.
//     A set that is updated from the events of Serf loses members after quick restarts.
//   - Gossip alone decides nothing. It reports which nodes exist and where; a failure that it reports
//     is a hint.
//   - The tags contain the cluster ID and the number of shards. Each node refuses members with other
//     values, so two clusters never merge by accident. A node without a cluster is accepted, unless its
//     program does not support the current feature level (tag "level", such as "1-2": current level and
//     highest supported level). Tags that a later version adds are ignored.
//   - The bytes and the number of streams that other hosts open are limited before memberlist reads
//     them (streamLimiter).
//
// # Why memberlist's label does not contain the cluster ID
//
// The label is part of each packet, fixed before the first packet is sent, and must be equal at both
// ends. A node that bootstraps or joins a cluster does not have its ID yet, so no node would accept
// its packets. If this package removed the label before memberlist checks it, the encryption would not
// authenticate it, and it would add nothing to the tags.
//
// # Timers
//
// This package replaces two kinds of library timers, because each of them wakes an idle node: the
// ticks of memberlist (ticks.go), and the snapshot of Serf (snapshot.go).
package gossip
