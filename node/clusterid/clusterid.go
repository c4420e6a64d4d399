// Package clusterid gives clusters their ids, and tells by them which of two is a
// recovery of the other.
//
// A cluster is born with a random id, its family. One that goes on after a lost
// quorum, or from a backup, gets another id: the family, the floor from which its
// epochs count (ack.State.Recovered), and a few random digits, because two
// survivors may be recovered at the same moment.
//
//	5b0c0d4f7a9e1c33                      born
//	5b0c0d4f7a9e1c33.19aa0b3c5e0-91d2     recovered
//
// Of two clusters of one family the later recovery, the one with the higher
// floor, supersedes the other: a node of the other one that meets it must stop.
// That is how a majority that was given up does not come back to serve what
// others serve now.
package clusterid

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
)

// New returns an id for a cluster that is born: 64 random bits.
func New() string { return random(8) }

// Recovered returns an id for the cluster that goes on where the cluster old was
// left, above floor.
func Recovered(old string, floor uint64) string {
	family, _ := parse(old)
	return family + "." + strconv.FormatUint(floor, 16) + "-" + random(2)
}

// Supersedes reports whether cluster a is a later recovery of what cluster b is.
func Supersedes(a, b string) bool {
	fa, na := parse(a)
	fb, nb := parse(b)
	if fa == "" || fa != fb || a == b {
		return false
	}
	return na > nb || na == nb && a > b
}

// parse returns an id's family and floor; a cluster that was never recovered has
// none.
func parse(id string) (family string, floor uint64) {
	family, rest, ok := strings.Cut(id, ".")
	if !ok {
		return id, 0
	}
	digits, _, _ := strings.Cut(rest, "-")
	floor, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return id, 0 // some other id that has a dot
	}
	return family, floor
}

// random returns n random bytes in hexadecimal.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b)
}
