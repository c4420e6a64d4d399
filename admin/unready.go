package admin

import (
	"errors"
	"strings"
)

// UnreadyError is why a node is not ready.
type UnreadyError struct {
	// Brief is for everybody: a few words without names or addresses.
	Brief string
	// Why is what operators are told beside that; empty: nothing.
	Why string
}

// Error returns both, or only the second one where that begins with the same word.
func (u *UnreadyError) Error() string {
	word, _, _ := strings.Cut(u.Brief, ":")
	switch {
	case u.Why == "":
		return u.Brief
	case strings.HasPrefix(u.Why, word+":"):
		return u.Why
	}
	return u.Brief + ": " + u.Why
}

// Brief returns what a stranger may know of err, an error of Readiness.
func Brief(err error) string {
	if u, ok := errors.AsType[*UnreadyError](err); ok {
		return u.Brief
	}
	return "not ready"
}
