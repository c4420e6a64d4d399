// Package announce announces the addresses of a service that is not a node. It implements the command
// announce.
//
// New checks the settings and reads the secret. Run is a member of the gossip until its context ends, and nodes
// show the addresses of the member. The member has no data directory, no peer port and no node tags, so it cannot
// become a voter or a member of the shard map. Its name contains a character that no node ID contains.
//
// Run owns all goroutines and returns after the last one. It is called once.
package announce
