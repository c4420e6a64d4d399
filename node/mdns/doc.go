// Package mdns finds the gossip addresses of the nodes on the local network by multicast DNS (RFC 6762), with
// github.com/hashicorp/mdns.
//
// A Responder responds to the queries of other members with the gossip address of its node. Lookup sends a query and
// returns the addresses in the responses. Package gossip uses both for the join address "mdns".
//
// # Trust
//
// Every host of the network can send responses. A response therefore contains a message authentication code of the
// address, whose key is derived from a gossip key. Lookup ignores all other responses, so a host without the cluster's
// secret cannot make a node open a connection. A copied response only leads to an address that a node had. The service
// name contains nothing of the cluster, because the code already separates clusters. The names in a response are random
// for an observer: they contain a part of the code.
//
// # Concurrency
//
// Responder.Run owns its goroutines. Lookup is safe for concurrent use.
package mdns
