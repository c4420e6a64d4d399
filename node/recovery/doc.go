// Package recovery works on the data directory of a node that does not run: it
// makes a cluster that lost its quorum go on from one survivor, or from a backup.
//
// Both end alike, with a directory that is the beginning of a cluster of one:
//
//   - Its log begins with a snapshot of what was left, at a floor that no lost
//     node can have reached (ack.State.Recovered says why), so every epoch from
//     now on fences all before it. The floor is the time in milliseconds since
//     1970, which orders recoveries of one cluster that know nothing of each
//     other, such as two restores of one backup: no log grows by a thousand
//     entries a second for years. Where the clock is wrong, it is ack.MinJump
//     above the last entry known, and the operator may name a higher one.
//   - Its cluster id is another one (package clusterid), so what is left of the old
//     cluster is refused by gossip and by the peer port, and stops when it meets
//     the new one. Others join with an empty directory.
//   - Its disk id is another one, as its votes are forgotten.
//
// A survivor may lack the last maps that the lost majority agreed on. That costs
// placement, never safety: whoever serves does so under a new epoch.
package recovery
