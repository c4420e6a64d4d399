// Package clusterid creates cluster IDs, and compares them to determine whether one cluster is a later
// recovery of another.
//
// A new cluster gets a random ID, its family. A cluster that was recovered after losing its quorum, or restored
// from a backup, gets a new ID. It consists of the family, the floor above which the new cluster numbers its epochs
// (see ack.State.Recovered), and random digits that distinguish two survivors recovered at the same time.
//
//	5b0c0d4f7a9e1c33                      new cluster
//	5b0c0d4f7a9e1c33.19aa0b3c5e0-91d2     recovered cluster
//
// Of two clusters of one family, the later recovery, which has the higher floor, supersedes the other. A node of
// the superseded cluster that meets a node of the superseding one must stop. Otherwise a majority that was
// considered lost could return and serve shards that the recovered cluster also serves.
package clusterid

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
)

// New returns the ID of a new cluster: 64 random bits in hexadecimal.
func New() string { return random(8) }

// Recovered returns the ID of a recovery of the cluster old. The epochs of the recovered cluster are above
// floor.
func Recovered(old string, floor uint64) string {
	family, _ := parse(old)
	return family + "." + strconv.FormatUint(floor, 16) + "-" + random(2)
}

// Supersedes reports whether clusters a and b are of the same family and a is the later recovery.
func Supersedes(a, b string) bool {
	fa, na := parse(a)
	fb, nb := parse(b)
	if fa == "" || fa != fb || a == b {
		return false
	}
	return na > nb || na == nb && a > b
}

// parse returns the family and the floor of an ID. The floor is zero for a cluster that was not recovered.
func parse(id string) (family string, floor uint64) {
	family, rest, ok := strings.Cut(id, ".")
	if !ok {
		return id, 0
	}
	digits, _, _ := strings.Cut(rest, "-")
	floor, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return id, 0 // not an ID of a recovered cluster, although it contains a dot
	}
	return family, floor
}

// random returns n random bytes in hexadecimal.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // returns no error: crypto/rand terminates the program instead
	return hex.EncodeToString(b)
}
