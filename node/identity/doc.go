// Package identity checks that the processes of other nodes are what they claim to be.
//
// # Types
//
//   - Records contains what the processes of other nodes have stated about their disks (data
//     directories), and creates the statement of this node. It refuses processes whose disk was rolled
//     back to an older image or copied, see package diskhistory.
//   - Greeter opens connections to the other voters, so that both sides exchange their statements.
//   - AddressChanges accepts the new address of a node that has restarted at another address.
//   - CheckSuperseded asks another cluster whether it supersedes the cluster of this node.
//
// # Concurrency
//
// Records.Run, Greeter.Run and AddressChanges.Run each own one goroutine. All other methods may be called
// from any goroutine.
//
// # Invariants
//
//   - Gossip alone is never trusted: every holder of the secret can send it, and can repeat it later. The
//     process itself must confirm a claim on its authenticated peer port.
//   - The records on the disk may lag behind by a second. The other voters have the same records.
package identity
